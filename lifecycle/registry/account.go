package registry

import (
	"math"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// Account returns the node's account of the memory that launchers with a memory lock can lock. In
// observe mode it holds the amounts of enforce mode.
func (r *Registry) Account() agentapi.Account { return r.AccountWithout(Key{}, "") }

// AccountWithout returns the account without one container, for a decision on its new demand. For a
// new container it is the account without the launcher that the container replaces. The VM
// processes of other containers with the same key stay in the account.
func (r *Registry) AccountWithout(key Key, containerID string) agentapi.Account {
	return r.AccountWith(nil, 0, key, containerID)
}

// AccountWith is AccountWithout plus the launchers in the runtime's list of that generation that
// the registry lacks. It adds up all launchers: a node has a few hundred at most, and a container
// creation calls it once.
func (r *Registry) AccountWith(
	listed []Launcher, since Generation, key Key, containerID string,
) agentapi.Account {
	r.mu.Lock()
	defer r.mu.Unlock()
	var account agentapi.Account
	excluded := r.excluded(key, containerID)
	for l := range r.all() {
		if l != excluded {
			charge(&account, l, r.ownBound(l))
		}
	}
	for i := range listed {
		if listed[i].Key() != key && !r.entered(&listed[i], since) {
			charge(&account, &listed[i], listed[i].Bound())
		}
	}
	return account
}

// excluded returns the launcher of a container, or else the one that a new container replaces. It
// returns nil if that one has VM processes left, which stay in the account. The caller holds the
// lock.
func (r *Registry) excluded(key Key, containerID string) *Launcher {
	if l, ok := r.byID[containerID]; ok {
		return l
	}
	if l, ok := r.launchers[key]; ok && len(l.VMs) == 0 {
		return l
	}
	return nil
}

// ownBound returns the bound of a launcher without the memory that it shares. The huge pages belong
// to the pod, and the latest container has them. The caller holds the lock.
func (r *Registry) ownBound(l *Launcher) host.Bound {
	bound := l.Bound()
	if latest, ok := r.launchers[l.Key()]; ok && latest != l {
		if _, bounded := latest.Bound().Charge(0); bounded && latest.Charge() > 0 {
			bound.HugePages = 0
		}
	}
	return bound
}

// entered reports whether the registry has the launcher. The caller holds the lock.
func (r *Registry) entered(l *Launcher, since Generation) bool {
	if _, ok := r.replaced[l.Container.ID]; ok {
		return true
	}
	now, ok := r.launchers[l.Key()]
	return ok && (now.Container.ID == l.Container.ID || now.generation > uint64(since))
}

// charge adds the launcher's part to the account. The sum stays at the largest int64 instead of
// overflowing.
func charge(account *agentapi.Account, l *Launcher, bound host.Bound) {
	demand, ok := l.accountDemand()
	if !ok {
		return
	}
	if demand == host.Unlimited {
		account.Unlimited++
	}
	bytes, bounded := bound.Charge(demand)
	if !bounded {
		account.Unbounded++
	}
	sum := uint64(account.Granted) + uint64(bytes)
	account.Granted = int64(min(sum, math.MaxInt64))
}
