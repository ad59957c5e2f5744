package lifecycle

import (
	"math"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// Account returns the lockable memory that launchers were granted on this node.
// It is computed from the launchers each time, so it cannot drift from them. In
// observe mode it is what would have been granted.
func (r *Registry) Account() agentapi.Account { return r.AccountWithout(Key{}) }

// AccountWithout returns the account without one launcher, whose new demand is to
// be decided on.
func (r *Registry) AccountWithout(key Key) agentapi.Account { return r.AccountWith(nil, 0, key) }

// AccountWith returns what AccountWithout does, and counts in the launchers that
// the runtime listed at that moment and that were not entered yet.
func (r *Registry) AccountWith(listed []Launcher, since Generation, without Key) agentapi.Account {
	r.mu.Lock()
	defer r.mu.Unlock()
	var a agentapi.Account
	count := func(l *Launcher) {
		if l.Demand != nil && l.holds() {
			a = add(a, *l.Demand)
		}
	}
	except := r.launchers[without]
	for _, l := range r.launchers {
		if l != except {
			count(l)
		}
	}
	for i := range listed {
		if listed[i].Key() != without && !r.entered(&listed[i], since) {
			count(&listed[i])
		}
	}
	return a
}

// entered needs the lock.
func (r *Registry) entered(l *Launcher, since Generation) bool {
	now, ok := r.launchers[l.Key()]
	return ok && (now.Container.ID == l.Container.ID || now.generation > uint64(since))
}

// add saturates: without a ceiling for the node the sum may exceed an int64.
func add(a agentapi.Account, l Limit) agentapi.Account {
	switch {
	case l == Unlimited:
		a.Unlimited++
	case l > Limit(math.MaxInt64-a.Granted):
		a.Granted = math.MaxInt64
	default:
		a.Granted += int64(l)
	}
	return a
}
