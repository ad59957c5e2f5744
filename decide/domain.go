package decide

import (
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// setLifecycle enters domain, grace period and watchdog. Only the domain needs a rule.
func (d *decider) setLifecycle(request api.Request) {
	d.decision.Domain = normalDomain(request.Domain)
	if request.GracePeriod != nil {
		d.allowGracePeriod(*request.GracePeriod)
	}
	if request.Watchdog != nil {
		d.decision.Watchdog = *request.Watchdog
	}
}

// allowGracePeriod checks a grace period against the node's maximum, because a VM outside the
// pod outlives the pod by as long. A running launcher gets at most the maximum, too.
func (d *decider) allowGracePeriod(requested time.Duration) {
	most := d.policy.Lifecycle.MaxGracePeriod
	d.decision.GracePeriod = min(requested, most)
	if requested > most {
		d.refuse(agentapi.ReasonGracePeriodRefused, "annotation %s: want at most %s, "+
			"as the node policy says (lifecycle.maxGracePeriod); ask for less, or have the "+
			"policy changed",
			d.written(api.GracePeriodKey), most)
	}
}

// DeclaredDomain returns the domain declared by the container's annotations, a UUID in libvirt's
// form. ok is false when they declare none.
func (f Facts) DeclaredDomain() (domain string, ok bool) {
	_, declared, ok := api.Effective(f.Annotations, api.DomainKey, f.Container)
	return normalDomain(declared), ok
}

// normalDomain returns a declared domain, a UUID in libvirt's form. Two spellings of a UUID are
// thus one claim.
func normalDomain(declared string) string {
	if id, ok := tie.ParseDomainUUID(declared); ok {
		return id.String()
	}
	return declared
}

// allowDomain checks a declared domain against the node policy, the rule and other claims. It
// names the other claimant only to a pod with a right to the domain.
func (d *decider) allowDomain(declared string) {
	requested := "annotation " + d.written(api.DomainKey)
	domain := d.decision.Domain
	d.decision.Domain = ""
	switch other := d.facts.DomainClaimant; {
	case d.policy.Lifecycle.Libvirt == nil:
		d.refuse(agentapi.ReasonDomainRefused, "%s: the node policy names no libvirt of the node "+
			"(lifecycle.libvirt); remove the annotation, or have the policy changed", requested)
	case d.rule.AllowDomain(declared) != nil:
		d.refuse(agentapi.ReasonDomainRefused, "%s: %s; remove the annotation, or have the "+
			"policy changed",
			requested, d.rule.AllowDomain(declared))
	case other != nil:
		d.refuse(agentapi.ReasonDomainClaimed, "%s: pod %s/%s has claimed that domain of the "+
			"node's libvirt; "+
			"declare another, or delete that pod", requested, other.Namespace, other.Name)
	default:
		d.decision.Domain = domain
		d.note("the VM is domain %q of the node's libvirt", domain)
	}
}

// keepDomain reserves the domain of an undecided launcher, unless another pod has claimed it.
func (d *decider) keepDomain() {
	if d.facts.DomainClaimant != nil {
		d.decision.Domain = ""
	}
}
