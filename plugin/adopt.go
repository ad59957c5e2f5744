package plugin

import (
	"maps"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// podContainer is a container with its pod, as reported by the runtime.
type podContainer struct {
	pod *nri.PodSandbox
	ctr *nri.Container
}

// findOrAdopt returns the launcher of an event. An unknown launcher was created while the agent was
// away, or is missing from a Synchronize. An event of a container replaced since the last list is
// too late, and ignored.
func (p *Plugin) findOrAdopt(
	pod *nri.PodSandbox, ctr *nri.Container, state agentapi.State,
) (registry.Launcher, bool) {
	if l, ok := p.Registry.Find(ctr.GetId()); ok {
		return l, true
	}
	return p.adopt(podContainer{pod, ctr}, state, registry.Generation(p.listed.Load()))
}

// adopt registers an existing container, unless another one has replaced it since. It decides as
// for a new one, but never refuses a running container.
func (p *Plugin) adopt(
	m podContainer, state agentapi.State, since registry.Generation,
) (registry.Launcher, bool) {
	if !p.runsVM(m.pod, m.ctr) {
		return registry.Launcher{}, false
	}
	l, d, ok := p.registerExisting(m, state, since)
	if !ok {
		p.Logger.Debug("event of a replaced container", "pod",
			m.pod.GetNamespace()+"/"+m.pod.GetName(),
			"container", m.ctr.GetName(), "id", m.ctr.GetId())
		return registry.Launcher{}, false
	}
	p.log(l).Info("unknown launcher adopted", "state", state, "undecided", d.Undecided)
	p.reportExisting(l, d)
	return l, true
}

func (p *Plugin) registerExisting(m podContainer, state agentapi.State, since registry.Generation) (
	l registry.Launcher, d decide.Decision, ok bool,
) {
	p.deciding.Lock()
	defer p.deciding.Unlock()
	if p.Registry.Replaced(keyOf(m.pod, m.ctr), m.ctr.GetId(), since) {
		return l, d, false
	}
	l, d = p.decideExisting(m, state, p.hugePages(m.pod))
	p.Registry.Put(l)
	if d.Undecided {
		p.undecided[m.ctr.GetId()] = m
	}
	return l, d, true
}

// decideExisting decides about an existing container of a pod with this limit of huge pages.
func (p *Plugin) decideExisting(
	m podContainer, state agentapi.State, hugePages hugePageLimit,
) (registry.Launcher, decide.Decision) {
	facts := p.facts(m.pod, m.ctr)
	facts.Exists = true
	withHugePages(&facts, hugePages)
	facts.DomainClaimant = p.claimant(facts, false)
	d := decide.Container(p.Policy.Get(), facts)
	return launcher(m.pod, m.ctr, facts, d, state), d
}

func (p *Plugin) reportExisting(l registry.Launcher, d decide.Decision) {
	for _, r := range d.Remarks {
		if d.Refusal != nil {
			r.Message = "it runs although it would be refused: " + r.Message
		}
		p.report(l, r)
	}
}

// decideAgain decides about launchers whose service account was unknown.
func (p *Plugin) decideAgain() {
	p.deciding.Lock()
	waiting := maps.Clone(p.undecided)
	p.deciding.Unlock()
	for id, m := range waiting {
		if l, d, ok := p.redecide(id, m); ok {
			p.log(l).Info("launcher decided", "rule", d.Rule)
			p.reportExisting(l, d)
			p.Guard.Enqueue(id)
			p.startTie(id)
		}
	}
}

// redecide updates the decision of a launcher, and keeps its state from events. ok is false without
// a new decision.
func (p *Plugin) redecide(
	id string, m podContainer,
) (l registry.Launcher, d decide.Decision, ok bool) {
	p.deciding.Lock()
	defer p.deciding.Unlock()
	decided, d := p.decideExisting(m, agentapi.StateCreated, p.hugePages(m.pod))
	known := p.Registry.Update(id, func(now *registry.Launcher) {
		if d.Undecided {
			return
		}
		now.Rule, now.Settings = decided.Rule, decided.Settings
		now.Notes, now.Refusal = decided.Notes, decided.Refusal
		now.Demand, now.Given, now.Ceiling = decided.Demand, decided.Given, decided.Ceiling
		now.Maximum, now.Facts = decided.Maximum, decided.Facts
		now.Domain, now.Undecided = decided.Domain, false
	})
	if known && d.Undecided {
		return l, d, false
	}
	delete(p.undecided, id)
	l, _ = p.Registry.Find(id)
	return l, d, known
}
