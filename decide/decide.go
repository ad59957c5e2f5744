package decide

import (
	"errors"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle"
	"github.com/mooring-vm/mooring/memlock"
)

// Facts is all that a decision about a container depends on, next to the policy.
type Facts struct {
	Pod         agentapi.PodRef
	Container   string            // name of the container that is to be created
	Labels      map[string]string // of the pod
	Annotations map[string]string // of the pod

	ServiceAccount      string
	ServiceAccountKnown bool // false without a connection to Kubernetes

	// MemoryLimit is the container's memory limit in bytes, 0 or less for none.
	MemoryLimit int64

	// CPUs is how many CPUs the container has, in thousandths: the most that its
	// limit, its cpuset or its request says. 0 when none of them does.
	CPUs int64

	// Architecture is the node's, as Kubernetes names it.
	Architecture string

	// SpecMemlock is the RLIMIT_MEMLOCK in the container's spec. nil: none, so
	// it inherits the runtime's own. Of a container that is to be created, it
	// is from the runtime's configuration, or from a plugin that was asked
	// before.
	SpecMemlock *lifecycle.Rlimit

	// NodeMemory is the memory of the node in bytes, 0 when not known.
	NodeMemory int64

	// Exists is set for a container that was created before, with whatever
	// its spec has: by an agent that was here earlier, or without one.
	Exists bool

	// NodeGranted is the locked memory granted to the node's other launchers.
	NodeGranted int64

	// DomainClaimant is the other pod that has claimed the domain that this one
	// declares; nil: none.
	DomainClaimant *agentapi.PodRef

	// Controllers are the cgroup controllers that containers of this node can
	// have; nil when not known, which lets the runtime find out.
	Controllers []string
}

// Remark is something to tell the pod's author: what becomes an event.
type Remark struct {
	Type    agentapi.EventType
	Reason  agentapi.Reason
	Message string
}

// Decision is what is to be done with a container.
type Decision struct {
	// Launcher is false for a container that does not run a VM. Nothing else
	// is set then, and nothing may be done to it.
	Launcher bool

	// NeedsRule is set where something is asked for that a rule has to allow.
	NeedsRule bool

	Mode     policy.Mode
	Rule     string              // of the policy that decided; empty when none was needed, or matched
	Memlock  *lifecycle.Limit    // what the container is to have, nil when it asks for no lock
	Yield    bool                // the spec has that much already: leave it
	Demand   *lifecycle.Limit    // what it counts for in the node's account
	Ceiling  *lifecycle.Limit    // as in [lifecycle.Launcher]
	Cgroup   []api.CgroupSetting // sorted by file
	Settings []agentapi.Setting  // for users: memlock first, then cgroup files
	Refusal  *Refusal            // nil: allowed
	Notes    []string            // for users
	Remarks  []Remark

	// Domain, GracePeriod and Watchdog are as in [lifecycle.Launcher].
	Domain                string
	GracePeriod, Watchdog time.Duration

	// Undecided is set for a container that exists while the service account
	// is not known that says which rule holds: nothing may be done to it, and
	// nothing told of it, until then.
	Undecided bool
}

// Act reports whether the container gets what was decided. In observe mode, and
// with a refusal, it gets nothing.
func (d Decision) Act() bool {
	return d.Launcher && !d.Undecided && d.Refusal == nil && d.Mode == policy.Enforce
}

// Container decides what a container gets. It is a pure function: it does not block,
// and the same arguments give the same decision.
func Container(p *policy.Policy, f Facts) Decision {
	container, ok := Recognise(p, f.Labels, f.Annotations)
	if !ok || container != f.Container {
		return Decision{}
	}
	d := decider{policy: p, facts: f, decision: Decision{Launcher: true, Mode: p.Mode}}
	d.decide()
	d.conclude()
	d.bound()
	return d.decision
}

// decider makes one decision.
type decider struct {
	policy   *policy.Policy
	facts    Facts
	decision Decision
	faults   []fault
}

// decide collects what is asked for, and all that speaks against it.
func (d *decider) decide() {
	request, err := api.Parse(d.facts.Annotations, d.facts.Container)
	if err != nil {
		d.refuse(agentapi.ReasonAnnotationInvalid, "%s; correct it", oneLine(err))
		return
	}
	lock, err := d.lock(request)
	if err != nil {
		d.refuse(agentapi.ReasonAnnotationInvalid, "%s: %s", d.lockAnnotations(), oneLine(err))
		return
	}
	if !lock.Required {
		d.note("no memory lock: " + lock.Reason)
	}
	d.askLifecycle(request)
	if !lock.Required && len(request.Cgroup) == 0 && request.Domain == "" {
		return // asks for nothing that needs a rule
	}
	d.decision.NeedsRule = true
	d.ask(lock, request.Cgroup)
	rule, err := d.policy.Match(d.facts.Pod.Namespace, d.facts.ServiceAccount, d.facts.ServiceAccountKnown)
	if d.facts.Exists && errors.Is(err, policy.ErrAccountUnknown) {
		d.decision.Undecided = true
		d.keepDomain()
		d.note("not decided yet: " + err.Error())
		return
	}
	if err != nil {
		d.decision.Domain = ""
		d.refuse(d.reason(lock, request), "%s: %s; %s", d.asked(lock, request), err, remedy(err))
		return
	}
	d.decision.Rule = rule.Name
	d.allowMemlock(rule, lock)
	for _, s := range request.Cgroup {
		d.allowFile(rule, s)
	}
	if request.Domain != "" {
		d.allowDomain(rule, request.Domain)
	}
}

// lock computes the memory lock.
func (d *decider) lock(request api.Request) (memlock.Result, error) {
	overhead, err := d.overhead(request)
	if err != nil {
		return memlock.Result{}, err
	}
	return memlock.ForLauncher(memlock.Input{
		Request: request, ContainerMemoryLimit: d.facts.MemoryLimit, Overhead: overhead,
	})
}

// remedy says what helps a container that no rule decides for.
func remedy(err error) string {
	if errors.Is(err, policy.ErrAccountUnknown) {
		return "kubelet tries again"
	}
	return "have a rule added, or remove the annotations"
}

// ask enters what is asked for, so that it is shown whatever is decided.
func (d *decider) ask(lock memlock.Result, files []api.CgroupSetting) {
	if lock.Required {
		limit := limitOf(lock)
		d.decision.Memlock = &limit
		d.decision.Settings = append(d.decision.Settings, agentapi.Setting{
			Name: agentapi.MemlockSetting, Asked: limit.String(), Terms: terms(lock),
		})
	}
	d.decision.Cgroup = files
	for _, s := range files {
		d.decision.Settings = append(d.decision.Settings, agentapi.Setting{Name: s.File, Asked: s.Value})
	}
}

// reason is the one for a refusal of everything that is asked for.
func (d *decider) reason(lock memlock.Result, request api.Request) agentapi.Reason {
	switch {
	case lock.Required:
		return agentapi.ReasonMemlockRefused
	case len(request.Cgroup) > 0:
		return agentapi.ReasonCgroupRefused
	}
	return agentapi.ReasonDomainRefused
}

// setting returns the named setting, which ask has entered, for change.
func (d *decider) setting(name string) *agentapi.Setting {
	at := slices.IndexFunc(d.decision.Settings, func(s agentapi.Setting) bool { return s.Name == name })
	return &d.decision.Settings[at]
}

func (d *decider) note(text string) {
	d.decision.Notes = append(d.decision.Notes, text)
}

func (d *decider) remark(kind agentapi.EventType, reason agentapi.Reason, message string) {
	d.decision.Remarks = append(d.decision.Remarks, Remark{kind, reason, message})
}

func limitOf(lock memlock.Result) lifecycle.Limit {
	if lock.Unlimited {
		return lifecycle.Unlimited
	}
	return lifecycle.Limit(lock.Bytes)
}

func terms(lock memlock.Result) []agentapi.Term {
	var all []agentapi.Term
	for _, t := range lock.Terms {
		all = append(all, agentapi.Term(t))
	}
	return all
}
