package plugin

import (
	"maps"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// member is a container as the runtime tells of it.
type member struct {
	pod *nri.PodSandbox
	ctr *nri.Container
}

// known returns the launcher that an event is about. One that is not known yet
// was created while the agent was away, or was lost in a Synchronize. An event of
// a container that another has replaced since the last list comes too late.
func (p *Plugin) known(pod *nri.PodSandbox, ctr *nri.Container, state agentapi.State) (registry.Launcher, bool) {
	if l, ok := p.Registry.Find(ctr.GetId()); ok {
		return l, true
	}
	return p.take(member{pod, ctr}, state, registry.Generation(p.listed.Load()))
}

// take enters a container that exists, unless it was replaced after that moment.
// It is decided on as if it were created now, but what runs is never refused.
func (p *Plugin) take(m member, state agentapi.State, since registry.Generation) (registry.Launcher, bool) {
	if !p.runsVM(m.pod, m.ctr) {
		return registry.Launcher{}, false
	}
	l, d, ok := p.enterExisting(m, state, since)
	if !ok {
		p.Logger.Debug("news of a container that was replaced", "pod", m.pod.GetNamespace()+"/"+m.pod.GetName(),
			"container", m.ctr.GetName(), "id", m.ctr.GetId())
		return registry.Launcher{}, false
	}
	p.log(l).Info("launcher was not known", "state", state, "undecided", d.Undecided)
	p.tellExisting(l, d)
	return l, true
}

func (p *Plugin) enterExisting(m member, state agentapi.State, since registry.Generation) (
	l registry.Launcher, d decide.Decision, ok bool,
) {
	p.deciding.Lock()
	defer p.deciding.Unlock()
	if p.Registry.Replaced(keyOf(m.pod, m.ctr), m.ctr.GetId(), since) {
		return l, d, false
	}
	l, d = p.judge(m, state)
	p.Registry.Put(l)
	if d.Undecided {
		p.undecided[m.ctr.GetId()] = m
	}
	return l, d, true
}

// judge decides on a container that exists.
func (p *Plugin) judge(m member, state agentapi.State) (registry.Launcher, decide.Decision) {
	facts := p.facts(m.pod, m.ctr)
	facts.Exists = true
	facts.DomainClaimant = p.claimant(facts, false)
	d := decide.Container(p.Policy, facts)
	return launcher(m.pod, m.ctr, d, state), d
}

func (p *Plugin) tellExisting(l registry.Launcher, d decide.Decision) {
	for _, r := range d.Remarks {
		if d.Refusal != nil {
			r.Message = "it runs although it would be refused: " + r.Message
		}
		p.tell(l, r)
	}
}

// decideAgain decides on the launchers whose service account was not known.
func (p *Plugin) decideAgain() {
	p.deciding.Lock()
	waiting := maps.Clone(p.undecided)
	p.deciding.Unlock()
	for id, m := range waiting {
		if l, d, ok := p.redecide(id, m); ok {
			p.log(l).Info("launcher is decided on", "rule", d.Rule)
			p.tellExisting(l, d)
			p.Guard.Enqueue(id)
			p.tieRunning(id)
		}
	}
}

// redecide changes what the decision says of a launcher, and leaves what events
// have told. ok is false when nothing was decided.
func (p *Plugin) redecide(id string, m member) (l registry.Launcher, d decide.Decision, ok bool) {
	p.deciding.Lock()
	defer p.deciding.Unlock()
	decided, d := p.judge(m, agentapi.StateCreated)
	known := p.Registry.Update(id, func(now *registry.Launcher) {
		if d.Undecided {
			return
		}
		now.Rule, now.Settings, now.Notes, now.Refusal = decided.Rule, decided.Settings, decided.Notes, decided.Refusal
		now.Demand, now.Given, now.Domain, now.Undecided = decided.Demand, decided.Given, decided.Domain, false
		now.Ceiling = decided.Ceiling
	})
	if known && d.Undecided {
		return l, d, false
	}
	delete(p.undecided, id)
	l, _ = p.Registry.Find(id)
	return l, d, known
}
