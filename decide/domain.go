package decide

import (
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle"
)

// askLifecycle enters what is asked for the life of the VM. It is only the domain
// that needs a rule. The grace period has a ceiling for the node: a VM outside of the
// pod outlives it for so long.
func (d *decider) askLifecycle(request api.Request) {
	d.decision.Domain = domainOf(request.Domain)
	if request.GracePeriod != nil {
		d.allowGracePeriod(*request.GracePeriod)
	}
	if request.Watchdog != nil {
		d.decision.Watchdog = *request.Watchdog
	}
}

// allowGracePeriod holds a grace period to the ceiling; so is a launcher that runs.
func (d *decider) allowGracePeriod(asked time.Duration) {
	most := d.policy.Lifecycle.MaxGracePeriod
	d.decision.GracePeriod = min(asked, most)
	if asked > most {
		d.refuse(agentapi.ReasonGracePeriodRefused, "annotation %s: want at most %s, as the node policy says "+
			"(lifecycle.maxGracePeriod); ask for less, or have the policy changed", d.written(api.GracePeriodKey), most)
	}
}

// domainOf returns a declared domain, a UUID in the form that libvirt writes, so
// that the same one is not claimed in two ways.
func domainOf(declared string) string {
	if id, ok := lifecycle.DomainUUID(declared); ok {
		return id.String()
	}
	return declared
}

// allowDomain holds a declared domain against the rule, the node, and the claims of
// others. Who else has it is told only to those who may have it themselves.
func (d *decider) allowDomain(rule policy.Rule, declared string) {
	asked := "annotation " + d.written(api.DomainKey)
	domain := d.decision.Domain
	d.decision.Domain = ""
	switch other := d.facts.DomainClaimant; {
	case d.policy.Lifecycle.Libvirt == nil:
		d.refuse(agentapi.ReasonDomainRefused, "%s: the node policy names no libvirt of the node (lifecycle.libvirt); "+
			"remove the annotation, or have the policy changed", asked)
	case rule.AllowDomain(declared) != nil:
		d.refuse(agentapi.ReasonDomainRefused, "%s: %s; remove the annotation, or have the policy changed",
			asked, rule.AllowDomain(declared))
	case other != nil:
		d.refuse(agentapi.ReasonDomainClaimed, "%s: pod %s/%s has claimed that domain of the node's libvirt; "+
			"declare another, or delete that pod", asked, other.Namespace, other.Name)
	default:
		d.decision.Domain = domain
		d.note(fmt.Sprintf("the VM is domain %q of the node's libvirt", domain))
	}
}

// keepDomain keeps the domain of a launcher that is not decided on from others,
// unless one of them has it.
func (d *decider) keepDomain() {
	if d.facts.DomainClaimant != nil {
		d.decision.Domain = ""
	}
}

// DeclaredDomain returns the domain that the container's annotations declare, a UUID in the
// usual form. ok is false when they declare none.
func (f Facts) DeclaredDomain() (domain string, ok bool) {
	_, declared, ok := api.Effective(f.Annotations, api.DomainKey, f.Container)
	return domainOf(declared), ok
}
