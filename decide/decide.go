package decide

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/internal/plaintext"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/memlock"
)

// Facts describe one container, its pod and its node.
type Facts struct {
	Pod         agentapi.PodRef
	Container   string            // name of the container
	Labels      map[string]string // of the pod
	Annotations map[string]string // of the pod

	ServiceAccount      string
	ServiceAccountKnown bool // false without a connection to Kubernetes

	// MemoryLimit is the container's memory limit in bytes, 0 or less for none.
	MemoryLimit int64

	// CPUs is the number of CPUs of the container, in thousandths: the largest of its limit, its
	// cpuset and its request. 0 when the container has none of them.
	CPUs int64

	// Architecture is the node's, as Kubernetes names it.
	Architecture string

	// SpecMemlock is the RLIMIT_MEMLOCK in the container's spec. nil: the container inherits the
	// limit of the runtime. In the spec of a new container, the limit comes from the runtime's
	// configuration or from an NRI plugin with a lower index.
	SpecMemlock *host.Rlimit

	// Inherited is the RLIMIT_MEMLOCK of the runtime, which a new container without SpecMemlock
	// inherits. nil: unknown.
	Inherited *host.Rlimit

	// NodeMemory is the memory of the node in bytes, 0 when unknown.
	NodeMemory int64

	// Exists is set for a container created before this decision: while the agent was away, or
	// before it was installed. Its spec can no longer change.
	Exists bool

	// HugePages is the pod's limit of huge pages in bytes, which the memory limit does not include.
	HugePages int64

	// HugePagesUnknown is the error of reading the limit; HugePages is then an upper bound. nil: the
	// limit is known.
	HugePagesUnknown error

	// Outside is set if the VM runs outside of the container, in the node's libvirt. [Container]
	// sets it if the annotations declare a domain.
	Outside bool

	// NodeGranted is the part of all other launchers in the node's account, in bytes.
	NodeGranted int64

	// DomainClaimant is another pod that has claimed the declared domain. nil: none.
	DomainClaimant *agentapi.PodRef

	// Controllers are the cgroup controllers of the node's containers. nil: unknown, the runtime
	// finds out.
	Controllers []string
}

// Remark is the content of an Event for the pod's author.
type Remark struct {
	Type    agentapi.EventType
	Reason  agentapi.Reason
	Message string
}

// Decision says how to treat one container.
type Decision struct {
	// Launcher is false for a container that does not run a VM. All other fields are empty then,
	// and Mooring leaves the container alone.
	Launcher bool

	// NeedsRule is set when a rule must allow the request.
	NeedsRule bool

	Mode     policy.Mode
	Rule     string              // the deciding rule; empty when none was needed or none matched
	Compared []policy.Comparison // with the pod: one result per rule, up to the end of the search
	Memlock  *host.Limit         // the requested memory lock; nil: none
	VMLock   *host.Limit         // minimum for the VM process; nil: Memlock
	Yield    bool                // the present limit already covers Memlock: leave it
	Demand   *host.Limit         // as in [registry.Launcher]
	Ceiling  *host.Limit         // as in [registry.Launcher]
	Cgroup   []api.CgroupSetting // sorted by file
	Settings []agentapi.Setting  // for users: memlock first, then cgroup files
	Refusal  *Refusal            // nil: allowed
	Notes    []string            // for users
	Remarks  []Remark

	// Domain, GracePeriod and Watchdog are as in [registry.Launcher].
	Domain                string
	GracePeriod, Watchdog time.Duration

	// Undecided is set for an existing container while the agent does not know the service account
	// selecting the rule. Until then the agent neither changes the container nor reports on it.
	Undecided bool
}

// Act reports whether the container gets the decided settings. In observe mode, and with a
// refusal, it gets none.
func (d Decision) Act() bool {
	return d.Launcher && !d.Undecided && d.Refusal == nil && d.Mode == policy.Enforce
}

// Maximum returns the policy's explicit maximum for the memory-lock limit of a process. nil: none,
// or a refused launcher.
func (d Decision) Maximum() *host.Limit {
	if d.Ceiling == nil || *d.Ceiling >= math.MaxInt64 || d.Refusal != nil || d.Undecided {
		return nil
	}
	return d.Ceiling
}

// Container decides about a new or an existing container.
func Container(p *policy.Policy, f Facts) Decision {
	container, ok := Recognise(p, f.Labels, f.Annotations)
	if !ok || container != f.Container {
		return Decision{}
	}
	_, f.Outside = f.DeclaredDomain()
	d := decider{policy: p, facts: f, decision: Decision{Launcher: true, Mode: p.Mode}}
	d.matchRule()
	d.evaluate()
	d.conclude()
	return d.decision
}

// decider makes one decision.
type decider struct {
	policy   *policy.Policy
	facts    Facts
	decision Decision
	faults   []fault

	rule    policy.Rule // of the pod
	ruleErr error       // why none matches
}

// matchRule finds the pod's rule.
func (d *decider) matchRule() {
	f := d.facts
	d.rule, d.decision.Compared, d.ruleErr = d.policy.Match(f.Pod.Namespace, f.ServiceAccount,
		f.ServiceAccountKnown)
	if d.ruleErr == nil {
		d.decision.Ceiling = ceiling(d.policy, d.rule, f)
	}
}

// evaluate collects the requested settings and every fault in them.
func (d *decider) evaluate() {
	request, err := api.Parse(d.facts.Annotations, d.facts.Container)
	if err != nil {
		d.refuse(agentapi.ReasonAnnotationInvalid, "%s; correct it", plaintext.OneLine(err.Error()))
		return
	}
	lock, err := d.computeLock(request)
	if err != nil {
		d.refuse(agentapi.ReasonAnnotationInvalid, "%s: %s", d.lockAnnotations(),
			plaintext.OneLine(err.Error()))
		return
	}
	if !lock.Required {
		d.note("no memory lock: %s", lock.Reason)
		d.remarkUselessValue(request)
	}
	d.setLifecycle(request)
	if !lock.Required && len(request.Cgroup) == 0 && request.Domain == "" {
		return
	}
	d.decision.NeedsRule = true
	d.enterSettings(lock, request.Cgroup)
	if d.facts.Exists && errors.Is(d.ruleErr, policy.ErrAccountUnknown) {
		d.decision.Undecided = true
		d.keepDomain()
		d.note("not decided yet: %v", d.ruleErr)
		return
	}
	if d.ruleErr != nil {
		d.decision.Domain = ""
		d.refuse(refusalReason(lock, request), "%s: %s; %s", d.requested(lock, request), d.ruleErr,
			remedy(d.ruleErr))
		return
	}
	d.decision.Rule = d.rule.Name
	if lock.Verdict() == memlock.VerdictUnknown {
		d.note("memory lock %s", lock)
	}
	d.allowMemlock(request, lock)
	for _, s := range request.Cgroup {
		d.allowFile(s)
	}
	if request.Domain != "" {
		d.allowDomain(request.Domain)
	}
}

// remarkUselessValue reports a value that adds to no lock. The author expects a lock.
func (d *decider) remarkUselessValue(request api.Request) {
	if request.Value == nil || request.RequiresLock != nil {
		return
	}
	d.remark(agentapi.Warning, agentapi.ReasonAnnotationInvalid, fmt.Sprintf("annotation %s has "+
		"no effect: a value only adds to a memory lock, and nothing asks for one; add %s: "+
		"\"true\" or %s, or remove it", d.written(api.ValueKey), api.RequiresLockKey,
		api.DevicesKey))
}

// computeLock computes the requested memory lock.
func (d *decider) computeLock(request api.Request) (memlock.Result, error) {
	overhead, err := d.overhead(request)
	if err != nil {
		return memlock.Result{}, err
	}
	lock, err := memlock.ForLauncher(memlock.Input{
		Request: request, ContainerMemoryLimit: d.facts.MemoryLimit, Overhead: overhead,
	})
	if slices.ContainsFunc(lock.Terms, isEstimate) {
		lock.Unknown = []string{"the launcher's overhead is an estimate; the pod has neither the " +
			"annotation " + api.OverheadKey + " nor " + KubeVirtOverheadKey}
	}
	return lock, err
}

// remedy returns what to do about a missing rule.
func remedy(err error) string {
	if errors.Is(err, policy.ErrAccountUnknown) {
		return "kubelet tries again"
	}
	return "have a rule added, or remove the annotations"
}

// enterSettings adds the requested settings to the decision. Users see them also after a
// refusal.
func (d *decider) enterSettings(lock memlock.Result, files []api.CgroupSetting) {
	if lock.Required {
		limit := limitOf(lock)
		d.decision.Memlock = &limit
		if lock.Libvirt > 0 {
			d.decision.VMLock = new(host.Limit(lock.Libvirt))
		}
		d.decision.Settings = append(d.decision.Settings, agentapi.Setting{
			Name: agentapi.MemlockSetting, Requested: limit.String(), Terms: terms(lock),
		})
	}
	d.decision.Cgroup = files
	for _, s := range files {
		d.decision.Settings = append(d.decision.Settings,
			agentapi.Setting{Name: s.File, Requested: s.Quantity()})
	}
}

// refusalReason returns the reason for refusing the whole request.
func refusalReason(lock memlock.Result, request api.Request) agentapi.Reason {
	switch {
	case lock.Required:
		return agentapi.ReasonMemlockRefused
	case len(request.Cgroup) > 0:
		return agentapi.ReasonCgroupRefused
	}
	return agentapi.ReasonDomainRefused
}

// setting returns a setting from enterSettings, for change.
func (d *decider) setting(name string) *agentapi.Setting {
	at := slices.IndexFunc(d.decision.Settings, func(s agentapi.Setting) bool {
		return s.Name == name
	})
	return &d.decision.Settings[at]
}

func (d *decider) note(format string, args ...any) {
	d.decision.Notes = append(d.decision.Notes, fmt.Sprintf(format, args...))
}

func (d *decider) remark(kind agentapi.EventType, reason agentapi.Reason, message string) {
	d.decision.Remarks = append(d.decision.Remarks, Remark{kind, reason, message})
}

func limitOf(lock memlock.Result) host.Limit {
	if lock.Unlimited {
		return host.Unlimited
	}
	return host.Limit(lock.Bytes)
}

func terms(lock memlock.Result) []agentapi.Term {
	var all []agentapi.Term
	for _, t := range lock.Terms {
		all = append(all, agentapi.Term(t))
	}
	return all
}
