package explain

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
)

// Outcome is the predicted treatment of a container.
type Outcome string

// The outcomes.
const (
	LeftAlone Outcome = "left-alone" // no launcher: unchanged
	Given     Outcome = "given"      // created, with all requested settings
	Refused   Outcome = "refused"    // not created
	Observed  Outcome = "observed"   // mode observe: created without settings
)

// Explanation is the predicted treatment of a pod. `mooring policy explain -o json` prints it.
type Explanation struct {
	Namespace      string      `json:"namespace"`
	Pod            string      `json:"pod"`
	ServiceAccount string      `json:"serviceAccount"`
	Mode           string      `json:"mode"`
	Node           Node        `json:"node"`
	Refused        bool        `json:"refused"` // at least one container is not created
	Containers     []Container `json:"containers"`
	Remarks        []Remark    `json:"remarks,omitempty"` // on the pod as a whole
}

// Container is the predicted treatment of one container.
type Container struct {
	Name        string             `json:"name"`
	Kind        Kind               `json:"kind"`
	Launcher    bool               `json:"launcher"`
	Why         string             `json:"why"` // why it is a launcher or not
	Outcome     Outcome            `json:"outcome"`
	MemoryLimit int64              `json:"memoryLimitBytes"`   // of the runtime; 0: none
	Rule        string             `json:"rule,omitempty"`     // the deciding rule
	Rules       []RuleTrace        `json:"rules,omitempty"`    // up to the deciding one
	Settings    []agentapi.Setting `json:"settings,omitempty"` // as in `mooring inspect` at first
	// claim on a domain of the node's libvirt
	Domain  string       `json:"domain,omitempty"`
	Refusal string       `json:"refusal,omitempty"` // also in mode observe: enforce's refusal
	Kernel  []KernelFile `json:"kernel,omitempty"`  // expected contents
	Notes   []string     `json:"notes,omitempty"`
	Remarks []Remark     `json:"remarks,omitempty"` // the agent's Events
}

// Remark is the content of an Event of the agent.
type Remark struct {
	Type    agentapi.EventType `json:"type"`
	Reason  agentapi.Reason    `json:"reason"`
	Message string             `json:"message"`
}

// Explain predicts a node's treatment of a pod. The pod needs a namespace.
func Explain(p *policy.Policy, pod *corev1.Pod, node Node) Explanation {
	e := Explanation{
		Namespace: pod.Namespace, Pod: podName(pod), ServiceAccount: serviceAccount(pod),
		Mode: string(p.Mode), Node: node, Remarks: podRemarks(p, pod),
	}
	for _, c := range containersOf(pod) {
		explained := explainContainer(p, pod, c, node)
		e.Containers = append(e.Containers, explained)
		e.Refused = e.Refused || explained.Outcome == Refused
	}
	return e
}

func explainContainer(p *policy.Policy, pod *corev1.Pod, c container, node Node) Container {
	facts := factsOf(pod, c, node)
	d := decide.Container(p, facts)
	result := Container{
		Name: c.Name, Kind: c.kind, Launcher: d.Launcher, Why: why(p, pod, c.Name),
		Outcome:     outcome(d),
		MemoryLimit: facts.MemoryLimit, Rule: d.Rule, Settings: d.Settings, Notes: d.Notes,
		Kernel: kernelShows(d),
		Domain: d.Domain,
	}
	if d.Launcher && d.Memlock == nil {
		result.Notes = append(result.Notes, unknownLock(pod, facts)...)
	}
	if d.Refusal != nil {
		result.Refusal = d.Refusal.Message
	}
	if d.NeedsRule {
		result.Rules = traceRules(p, facts, d.Compared)
	}
	if _, fromPod := memoryLimit(pod, c); fromPod && d.Launcher {
		result.Notes = append(result.Notes, "the container's memory limit is the pod's: "+
			"spec.resources.limits.memory")
	}
	for _, r := range d.Remarks {
		result.Remarks = append(result.Remarks, Remark(r))
	}
	return result
}

func outcome(d decide.Decision) Outcome {
	switch {
	case !d.Launcher:
		return LeftAlone
	case d.Mode != policy.Enforce:
		return Observed
	case d.Refusal != nil:
		return Refused
	}
	return Given
}

// Facts gathers the plugin's facts about a new container of the pod. ok is false if the pod has no
// container of this name.
func Facts(pod *corev1.Pod, name string, node Node) (facts decide.Facts, ok bool) {
	for _, c := range containersOf(pod) {
		if c.Name == name {
			return factsOf(pod, c, node), true
		}
	}
	return decide.Facts{}, false
}

// factsOf gathers the plugin's facts about a new container.
func factsOf(pod *corev1.Pod, c container, node Node) decide.Facts {
	limit, _ := memoryLimit(pod, c)
	return decide.Facts{
		Pod: agentapi.PodRef{Namespace: pod.Namespace, Name: podName(pod),
			UID: string(pod.UID)},
		Container:           c.Name,
		Labels:              pod.Labels,
		Annotations:         pod.Annotations,
		ServiceAccount:      serviceAccount(pod),
		ServiceAccountKnown: !node.AccountsUnknown,
		MemoryLimit:         limit,
		CPUs:                cpus(pod, c),
		Architecture:        node.Architecture,
		HugePages:           hugePages(pod),
		NodeMemory:          node.Memory,
		NodeGranted:         node.Granted,
		Controllers:         node.Controllers,
	}
}

func podName(pod *corev1.Pod) string { return cmp.Or(pod.Name, pod.GenerateName) }

func serviceAccount(pod *corev1.Pod) string {
	return cmp.Or(pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount, "default")
}

// why says why a container is a launcher or not.
func why(p *policy.Policy, pod *corev1.Pod, name string) string {
	launcher, ok := decide.Recognise(p, pod.Labels, pod.Annotations)
	if !ok {
		return "the pod is no launcher: it has no annotation " + api.LauncherKey +
			" that can be read, " +
			"and no profile of the node policy matches its labels"
	}
	by := "annotation " + api.LauncherKey
	if _, annotated := decide.Recognise(p, nil, pod.Annotations); !annotated {
		profile, _ := p.Profile(pod.Labels)
		by = fmt.Sprintf("profile %q of the node policy", profile.Name)
	}
	if launcher == name {
		return by + " names it"
	}
	return fmt.Sprintf("%s names container %q", by, launcher)
}

// podRemarks returns the agent's remarks at the creation of the pod's sandbox, and one about a
// launcher missing from the pod.
func podRemarks(p *policy.Policy, pod *corev1.Pod) (all []Remark) {
	for _, check := range []func(*policy.Policy, map[string]string, map[string]string) (
		decide.Remark, bool){
		decide.StrayAnnotations, decide.ConflictingLauncher,
	} {
		if r, ok := check(p, pod.Labels, pod.Annotations); ok {
			all = append(all, Remark(r))
		}
	}
	launcher, ok := decide.Recognise(p, pod.Labels, pod.Annotations)
	for _, c := range containersOf(pod) {
		ok = ok && c.Name != launcher
	}
	if ok {
		all = append(all, Remark{
			agentapi.Warning, agentapi.ReasonAnnotationInvalid,
			fmt.Sprintf("the launcher would be container %q, which the pod does not have: "+
				"the agent does nothing", launcher),
		})
	}
	return all
}
