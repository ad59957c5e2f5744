package plugin

import (
	"slices"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// pending holds the launchers in a list that Run has not reconciled yet. The kernel may know that
// some have ended. Container creations wait for charges and claims. The plugin computes both once
// for a list, with little work for each launcher.
type pending struct {
	charges []registry.Launcher // unknown to the registry, with their part of the node's account
	charged bool

	// hugePages is an upper bound, in bytes, of the huge pages that charges do not have yet.
	hugePages int64

	claims  []registry.Launcher // with a declared domain of the node's libvirt
	claimed bool
}

// chargesOf returns the launchers of a pending list that the registry lacks, with their part of the
// node's account. It takes the memory lock in the spec of a container, which is what an agent gave
// it. The exact part follows when Run reconciles the list.
//
// Reading the huge-page limit of each launcher would delay a creation. So the node's pools, which
// hold the pages of all launchers, are their bound until readHugePages. The caller holds deciding.
func (p *Plugin) chargesOf(s *snapshot) []registry.Launcher {
	if s.pending.charged {
		return s.pending.charges
	}
	pods := s.podsByID()
	for _, ctr := range s.containers {
		m := podContainer{pods[ctr.GetPodSandboxId()], ctr}
		if m.pod == nil || stateOf(ctr) == agentapi.StateStopped {
			continue
		}
		if _, known := p.Registry.Find(ctr.GetId()); known {
			continue
		}
		if l, ok := p.chargeOf(m); ok {
			s.pending.charges = append(s.pending.charges, l)
		}
	}
	if slices.ContainsFunc(s.pending.charges, countsHugePages) {
		s.pending.hugePages = p.nodeHugePages()
	}
	s.pending.charged = true
	return s.pending.charges
}

// countsHugePages reports whether the launcher's part of the account has its huge pages.
func countsHugePages(l registry.Launcher) bool { return l.MemoryLimit > 0 }

// readHugePages reads the huge-page limits of a pending list's launchers. The node's account is
// then exact, except for unreadable limits, which count with their upper bound.
func (p *Plugin) readHugePages() {
	s := p.snapshot.Load()
	if s == nil {
		return
	}
	p.deciding.Lock()
	charges := slices.Clone(p.chargesOf(s))
	p.deciding.Unlock()
	pods := s.podsByID()
	for i := range charges {
		if countsHugePages(charges[i]) {
			charges[i].HugePages = p.hugePages(pods[charges[i].SandboxID]).bytes
		}
	}
	p.deciding.Lock()
	defer p.deciding.Unlock()
	s.pending.charges, s.pending.hugePages = charges, 0
}

// chargeOf returns the launcher of a container if the node's account has a part for it. Some
// runtimes list no limits of a spec. Without one, the annotations decide.
func (p *Plugin) chargeOf(m podContainer) (l registry.Launcher, ok bool) {
	if !asksForLock(m) || !p.runsVM(m.pod, m.ctr) {
		return l, false
	}
	spec := specMemlock(m.ctr)
	if spec == nil {
		l, _ = p.decideExisting(m, stateOf(m.ctr), hugePageLimit{})
		return l, l.Demand != nil
	}
	_, domain, _ := api.Effective(m.pod.GetAnnotations(), api.DomainKey, m.ctr.GetName())
	return registry.Launcher{
		Launcher: agentapi.Launcher{
			Pod:       podRef(m.pod),
			Container: agentapi.ContainerRef{Name: m.ctr.GetName(), ID: m.ctr.GetId()},
			State:     stateOf(m.ctr),
		},
		SandboxID:   m.pod.GetId(),
		MemoryLimit: limitsOf(m.ctr.GetLinux().GetResources(), registry.ContainerLimits{}).Memory,
		Demand:      decide.SpecDemand(spec),
		Domain:      domain,
	}, true
}

// asksForLock reports whether annotations may ask for a memory lock of the container.
func asksForLock(m podContainer) bool {
	for _, key := range []string{api.RequiresLockKey, api.DevicesKey} {
		if _, _, ok := api.Effective(m.pod.GetAnnotations(), key, m.ctr.GetName()); ok {
			return true
		}
	}
	return false
}

// claimsOf returns the launchers of a pending list that declare a domain. The decision about each
// is made once, and misses later changes of the registry. The caller holds deciding.
func (p *Plugin) claimsOf(s *snapshot) []registry.Launcher {
	if s.pending.claimed {
		return s.pending.claims
	}
	for m := range s.members() {
		_, _, declares := api.Effective(m.pod.GetAnnotations(), api.DomainKey, m.ctr.GetName())
		if declares && p.runsVM(m.pod, m.ctr) {
			l, _ := p.decideExisting(m, stateOf(m.ctr), hugePageLimit{})
			s.pending.claims = append(s.pending.claims, l)
		}
	}
	s.pending.claimed = true
	return s.pending.claims
}

// podsByID returns the listed pods by the runtime's ID.
func (s *snapshot) podsByID() map[string]*nri.PodSandbox {
	pods := make(map[string]*nri.PodSandbox, len(s.pods))
	for _, pod := range s.pods {
		pods[pod.GetId()] = pod
	}
	return pods
}
