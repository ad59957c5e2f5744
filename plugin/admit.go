package plugin

import (
	"context"
	"log/slog"
	"runtime"
	"time"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// admit decides about a new container and registers a launcher. Other containers cost a few map
// look-ups.
func (p *Plugin) admit(
	pod *nri.PodSandbox, ctr *nri.Container,
) (registry.Launcher, decide.Decision) {
	if !p.runsVM(pod, ctr) {
		return registry.Launcher{}, decide.Decision{}
	}
	facts := p.facts(pod, ctr)
	withHugePages(&facts, p.hugePages(pod))
	var l registry.Launcher
	var d decide.Decision
	p.settle(func() (again bool) {
		exact := true
		if asksForLock(podContainer{pod, ctr}) {
			facts.NodeGranted, exact = p.granted(keyOf(pod, ctr), ctr.GetId())
		}
		facts.DomainClaimant = p.claimant(facts, true)
		d = decide.Container(p.Policy.Get(), facts)
		if d.Refusal != nil && !exact {
			return true
		}
		l = launcher(pod, ctr, facts, d, agentapi.StateCreating)
		p.Registry.Put(l)
		return false
	})
	return l, d
}

// runsVM reports whether the container is the pod's launcher.
func (p *Plugin) runsVM(pod *nri.PodSandbox, ctr *nri.Container) bool {
	name, ok := decide.Recognise(p.Policy.Get(), pod.GetLabels(), pod.GetAnnotations())
	return ok && name == ctr.GetName()
}

func keyOf(pod *nri.PodSandbox, ctr *nri.Container) registry.Key {
	return registry.Key{PodUID: pod.GetUid(), Container: ctr.GetName()}
}

// facts returns the facts about a container, except the huge pages. Their limit is in the pod's
// cgroup, and reading it takes system calls.
func (p *Plugin) facts(pod *nri.PodSandbox, ctr *nri.Container) decide.Facts {
	f := decide.Facts{
		Pod:         podRef(pod),
		Container:   ctr.GetName(),
		Labels:      pod.GetLabels(),
		Annotations: pod.GetAnnotations(),
		MemoryLimit: ctr.GetLinux().GetResources().GetMemory().GetLimit().GetValue(),
		CPUs:        cpus(ctr.GetLinux().GetResources().GetCpu()),
		SpecMemlock: specMemlock(ctr),
		Controllers: p.Controllers,
		NodeMemory:  p.NodeMemory,

		Architecture: runtime.GOARCH,
	}
	if p.Inherited != nil && f.SpecMemlock == nil {
		f.Inherited = p.Inherited()
	}
	f.ServiceAccount, f.ServiceAccountKnown = p.serviceAccount(f.Pod.UID)
	return f
}

// withHugePages completes the facts.
func withHugePages(f *decide.Facts, limit hugePageLimit) {
	f.HugePages, f.HugePagesUnknown = limit.bytes, limit.unknown
}

func podRef(pod *nri.PodSandbox) agentapi.PodRef {
	return agentapi.PodRef{Namespace: pod.GetNamespace(), Name: pod.GetName(), UID: pod.GetUid()}
}

// specMemlock returns the RLIMIT_MEMLOCK in the container's spec. Of several the last one counts,
// because the runtime applies them in order.
func specMemlock(ctr *nri.Container) *host.Rlimit {
	var found *host.Rlimit
	for _, l := range ctr.GetRlimits() {
		if l.GetType() == rlimitMemlock {
			found = &host.Rlimit{Soft: host.Limit(l.GetSoft()), Hard: host.Limit(l.GetHard())}
		}
	}
	return found
}

// launcher returns the registry's record for a decision.
func launcher(
	pod *nri.PodSandbox, ctr *nri.Container, facts decide.Facts, d decide.Decision,
	state agentapi.State,
) registry.Launcher {
	limits := limitsOf(ctr.GetLinux().GetResources(), registry.ContainerLimits{})
	l := registry.Launcher{
		Launcher: agentapi.Launcher{
			Pod: podRef(pod),
			Container: agentapi.ContainerRef{Name: ctr.GetName(), ID: ctr.GetId(),
				PID: int(ctr.GetPid())},
			State:    state,
			Mode:     string(d.Mode),
			Rule:     d.Rule,
			Settings: d.Settings,
			Notes:    d.Notes,
			Facts:    facts.Report(),
		},
		SandboxID:   pod.GetId(),
		Limits:      limits,
		MemoryLimit: limits.Memory,
		HugePages:   facts.HugePages,

		PinsByIOMMUFD: pinsByIOMMUFD(ctr.GetLinux().GetDevices()),

		Demand:      d.Demand,
		Maximum:     d.Maximum(),
		Undecided:   d.Undecided,
		Domain:      d.Domain,
		GracePeriod: d.GracePeriod,
		Watchdog:    d.Watchdog,
	}
	size, err := api.ParseSize(pod.GetAnnotations(), ctr.GetName())
	if l.Size = size; err != nil {
		l.SizeError = err.Error()
	}
	if d.Refusal != nil {
		l.Refusal = d.Refusal.Message
	}
	existing := state != agentapi.StateCreating // the runtime keeps it
	if d.Refusal != nil && d.Mode == policy.Enforce && !existing {
		l.State = agentapi.StateRefused
	}
	if d.Act() {
		l.Given = registry.Given{Memlock: d.Memlock, VMLock: d.VMLock, Cgroup: d.Cgroup}
		l.Ceiling = d.Ceiling
	}
	return l
}

// report records a remark about a launcher as log line and Event.
func (p *Plugin) report(l registry.Launcher, r decide.Remark) {
	level := slog.LevelInfo
	if r.Type == agentapi.Warning {
		level = slog.LevelWarn
	}
	p.log(l).Log(context.Background(), level, r.Message, "reason", r.Reason)
	p.Recorder.Record(agentapi.Event{
		Time: time.Now(), Type: r.Type, Reason: r.Reason, Message: r.Message, Pod: l.Pod,
		Container: l.Container,
	})
}

func (p *Plugin) log(l registry.Launcher) *slog.Logger {
	return p.Logger.With(attributes(l)...)
}

// attributes are the attributes of a launcher in each log line.
func attributes(l registry.Launcher) []any {
	return []any{"pod", l.Pod.Namespace + "/" + l.Pod.Name, "container", l.Container.Name,
		"pid", l.Container.PID}
}
