package plugin

import (
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/decide"
)

// sameDomain returns a test for claims on a domain. One pod may declare it by name, another by
// UUID.
func (p *Plugin) sameDomain(domain string) func(claimed string) bool {
	return func(claimed string) bool {
		return claimed == domain || p.Domains != nil && p.Domains.Same(claimed, domain)
	}
}

// claimant returns another pod with a claim on the container's declared domain. For a new container
// it also searches a pending list of the runtime. nil: none. The caller holds deciding.
func (p *Plugin) claimant(f decide.Facts, created bool) *agentapi.PodRef {
	declared, ok := f.DeclaredDomain()
	if !ok {
		return nil
	}
	is := p.sameDomain(declared)
	other, ok := p.Registry.Claimant(is, f.Pod.UID)
	if s := p.snapshot.Load(); created && !ok && s != nil {
		other, ok = p.Registry.ClaimantWith(p.claimsOf(s), s.generation, is, f.Pod.UID)
	}
	if !ok {
		return nil
	}
	return &other
}
