package registry

import (
	"math"
	"math/bits"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// Account returns the lockable memory that launchers were granted on this node. In
// observe mode it is what would have been granted.
func (r *Registry) Account() agentapi.Account { return r.AccountWithout(Key{}) }

// AccountWithout returns the account without one launcher, whose new demand is to
// be decided on. What VM processes of its earlier containers hold stays counted.
func (r *Registry) AccountWithout(key Key) agentapi.Account { return r.AccountWith(nil, 0, key) }

// AccountWith returns what AccountWithout does, and counts in the launchers that
// the runtime listed at that moment and that were not entered yet.
func (r *Registry) AccountWith(listed []Launcher, since Generation, without Key) agentapi.Account {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := r.held
	if l, ok := r.launchers[without]; ok {
		sum.sub(l)
	}
	for i := range listed {
		if listed[i].Key() != without && !r.entered(&listed[i], since) {
			sum.add(&listed[i])
		}
	}
	return sum.account()
}

// entered needs the lock.
func (r *Registry) entered(l *Launcher, since Generation) bool {
	if _, ok := r.left[l.Container.ID]; ok {
		return true
	}
	now, ok := r.launchers[l.Key()]
	return ok && (now.Container.ID == l.Container.ID || now.generation > uint64(since))
}

// tally is the sum of what launchers hold. It is kept up rather than computed, for
// each creation asks for it; 128 bits are exact whatever is added and taken away.
type tally struct {
	high, low uint64
	unlimited int
}

func (t *tally) add(l *Launcher) {
	if demand, ok := l.held(); !ok {
		return
	} else if demand == host.Unlimited {
		t.unlimited++
	} else {
		var carry uint64
		t.low, carry = bits.Add64(t.low, uint64(demand), 0)
		t.high += carry
	}
}

// sub takes away what add has added.
func (t *tally) sub(l *Launcher) {
	if demand, ok := l.held(); !ok {
		return
	} else if demand == host.Unlimited {
		t.unlimited--
	} else {
		var borrow uint64
		t.low, borrow = bits.Sub64(t.low, uint64(demand), 0)
		t.high -= borrow
	}
}

// account saturates: without a ceiling for the node the sum may exceed an int64.
func (t *tally) account() agentapi.Account {
	a := agentapi.Account{Granted: math.MaxInt64, Unlimited: t.unlimited}
	if t.high == 0 && t.low < math.MaxInt64 {
		a.Granted = int64(t.low)
	}
	return a
}
