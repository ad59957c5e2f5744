package plugin

import (
	"context"
	"log/slog"
	"time"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle"
)

// admit decides on a container and enters a launcher into the registry, in the
// given state: Creating for one that does not exist yet. Other containers cost a
// few map look-ups.
func (p *Plugin) admit(pod *nri.PodSandbox, ctr *nri.Container, state agentapi.State) (lifecycle.Launcher, Decision) {
	name, ok := Recognise(p.Policy, pod.GetLabels(), pod.GetAnnotations())
	if !ok || name != ctr.GetName() {
		return lifecycle.Launcher{}, Decision{}
	}
	facts := p.facts(pod, ctr)
	facts.Exists = state != agentapi.StateCreating
	p.deciding.Lock()
	defer p.deciding.Unlock()
	key := lifecycle.Key{PodUID: facts.Pod.UID, Container: facts.Container}
	facts.NodeGranted = p.Registry.AccountWithout(key).Granted
	d := Decide(p.Policy, facts)
	l := launcher(pod, ctr, d, state)
	p.Registry.Put(l)
	return l, d
}

func (p *Plugin) facts(pod *nri.PodSandbox, ctr *nri.Container) Facts {
	f := Facts{
		Pod:         podRef(pod),
		Container:   ctr.GetName(),
		Labels:      pod.GetLabels(),
		Annotations: pod.GetAnnotations(),
		MemoryLimit: ctr.GetLinux().GetResources().GetMemory().GetLimit().GetValue(),
		SpecMemlock: specMemlock(ctr),
		Controllers: p.Controllers,
	}
	if p.Accounts != nil {
		f.ServiceAccount, f.ServiceAccountKnown = p.Accounts.ServiceAccount(f.Pod.UID)
	}
	return f
}

func podRef(pod *nri.PodSandbox) agentapi.PodRef {
	return agentapi.PodRef{Namespace: pod.GetNamespace(), Name: pod.GetName(), UID: pod.GetUid()}
}

// specMemlock returns the limit that the container has already. The runtime
// applies duplicates in their order: the last one holds.
func specMemlock(ctr *nri.Container) *lifecycle.Rlimit {
	var found *lifecycle.Rlimit
	for _, l := range ctr.GetRlimits() {
		if l.GetType() == rlimitMemlock {
			found = &lifecycle.Rlimit{Soft: lifecycle.Limit(l.GetSoft()), Hard: lifecycle.Limit(l.GetHard())}
		}
	}
	return found
}

// launcher is what the registry is told of a decision.
func launcher(pod *nri.PodSandbox, ctr *nri.Container, d Decision, state agentapi.State) lifecycle.Launcher {
	l := lifecycle.Launcher{
		Launcher: agentapi.Launcher{
			Pod:       podRef(pod),
			Container: agentapi.ContainerRef{Name: ctr.GetName(), ID: ctr.GetId(), PID: int(ctr.GetPid())},
			State:     state,
			Mode:      string(d.Mode),
			Rule:      d.Rule,
			Settings:  d.Settings,
			Notes:     d.Notes,
		},
		SandboxID: pod.GetId(),
	}
	if d.Refusal == nil {
		l.Demand = d.Memlock
	} else {
		l.Refusal = d.Refusal.Message
	}
	if d.Refusal != nil && d.Mode == policy.Enforce && state == agentapi.StateCreating { // what exists stays
		l.State = agentapi.StateRefused
	}
	if d.Act() {
		l.Given = lifecycle.Given{Memlock: d.Memlock, Cgroup: d.Cgroup}
	}
	return l
}

// known returns the launcher that an event is about. One that is not known yet
// was created while the agent was away, or was lost in a Synchronize: it is
// decided on as if it were created now, but what runs is never refused.
func (p *Plugin) known(pod *nri.PodSandbox, ctr *nri.Container, state agentapi.State) (lifecycle.Launcher, bool) {
	if l, ok := p.Registry.Find(ctr.GetId()); ok {
		return l, true
	}
	l, d := p.admit(pod, ctr, state)
	if !d.Launcher {
		return lifecycle.Launcher{}, false
	}
	p.log(l).Info("launcher was not known", "state", state)
	for _, r := range d.Remarks {
		if d.Refusal != nil {
			r.Message = "it runs although it would be refused: " + r.Message
		}
		p.tell(l, r)
	}
	return l, true
}

// tell records a remark on a launcher.
func (p *Plugin) tell(l lifecycle.Launcher, r Remark) {
	level := slog.LevelInfo
	if r.Type == agentapi.Warning {
		level = slog.LevelWarn
	}
	p.log(l).Log(context.Background(), level, r.Message, "reason", r.Reason)
	p.Recorder.Record(agentapi.Event{
		Time: time.Now(), Type: r.Type, Reason: r.Reason, Message: r.Message, Pod: l.Pod, Container: l.Container,
	})
}

func (p *Plugin) log(l lifecycle.Launcher) *slog.Logger {
	return p.Logger.With("pod", l.Pod.Namespace+"/"+l.Pod.Name, "container", l.Container.Name, "pid", l.Container.PID)
}
