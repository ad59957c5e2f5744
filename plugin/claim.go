package plugin

import (
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/decide"
)

// sameDomain tells which claims are of one domain: one pod may have declared it by its
// name, and another by its UUID.
func (p *Plugin) sameDomain(domain string) func(claimed string) bool {
	return func(claimed string) bool {
		return claimed == domain || p.Domains != nil && p.Domains.Same(claimed, domain)
	}
}

// claimant returns the other pod, if any, that has claimed the domain that a
// container declares: for one that is to be created, also among those of a list
// that was not taken over yet. The caller decides.
func (p *Plugin) claimant(f decide.Facts, created bool) *agentapi.PodRef {
	declared, ok := f.DeclaredDomain()
	if !ok {
		return nil
	}
	is := p.sameDomain(declared)
	other, ok := p.Registry.Claimant(is, f.Pod.UID)
	if s := p.snapshot.Load(); created && !ok && s != nil {
		other, ok = p.Registry.ClaimantWith(p.launchersOf(s), s.generation, is, f.Pod.UID)
	}
	if !ok {
		return nil
	}
	return &other
}
