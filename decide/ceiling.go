package decide

import "github.com/mooring-vm/mooring/lifecycle"

// bound says what the VM of a launcher may ever lock: what its rule allows. An unlimited
// lock is for a container that has a memory limit. Where no rule is known, it may lock
// what it is given.
func (d *decider) bound() {
	rule, err := d.policy.Match(d.facts.Pod.Namespace, d.facts.ServiceAccount, d.facts.ServiceAccountKnown)
	if err != nil {
		return
	}
	limit, node := d.facts.MemoryLimit, d.facts.NodeMemory
	most := lifecycle.Limit(max(rule.Memlock.Max, 0))
	if rule.Memlock.Unlimited && limit > 0 && (node <= 0 || limit <= node) {
		most = lifecycle.Unlimited
	}
	if most > 0 {
		d.decision.Ceiling = &most
	}
}
