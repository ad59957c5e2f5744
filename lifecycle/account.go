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
func (r *Registry) AccountWithout(key Key) agentapi.Account {
	r.mu.Lock()
	defer r.mu.Unlock()
	var a agentapi.Account
	for k, l := range r.launchers {
		if k != key && l.holds() && l.Demand != nil {
			a = add(a, *l.Demand)
		}
	}
	return a
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
