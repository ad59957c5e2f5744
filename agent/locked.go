package agent

import (
	"github.com/mooring-vm/mooring/agent/metrics"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// A launcher is near its limit if it has locked more than nearRatio of it, and has less than
// nearRoom left. A VM with devices always locks most of its limit, so the ratio alone is no
// alarm.
const (
	nearRatio = 0.95
	nearRoom  = 128 << 20
)

// locked returns the locked memory of the node's launchers.
func (a *Agent) locked() metrics.Locked {
	launchers := a.registry.List()
	for i := range launchers {
		a.usage.fillOne(&launchers[i].Launcher)
	}
	return lockedBy(launchers)
}

// lockedBy adds up the latest samples of launchers with a memory lock.
func lockedBy(launchers []registry.Launcher) metrics.Locked {
	var all metrics.Locked
	for i := range launchers {
		l := &launchers[i]
		charge := l.Charge()
		if charge == 0 {
			continue
		}
		uses := usesOf(l, charge)
		all.Bytes += uses[0].locked
		near := false
		for _, u := range uses {
			all.Ratio = max(all.Ratio, u.ratio())
			near = near || u.near()
		}
		if near {
			all.NearLimit++
		}
	}
	return all
}

// lockUse is locked memory and its limit, in bytes.
type lockUse struct{ locked, limit int64 }

func (u lockUse) ratio() float64 { return float64(u.locked) / float64(u.limit) }

func (u lockUse) near() bool { return u.ratio() > nearRatio && u.limit-u.locked < nearRoom }

// usesOf returns the use of all VM processes against the launcher's part of the account, and then
// the use of each process with a finite memory lock.
func usesOf(l *registry.Launcher, charge int64) []lockUse {
	uses, locks := []lockUse{{limit: charge}}, l.VMLocks()
	for _, vm := range l.VMs {
		locked := lockedMemory(vm.Usage)
		uses[0].locked += locked
		lock := max(locks[processOf(vm)], l.ObservedLock(processOf(vm)))
		if lock > 0 && lock != host.Unlimited {
			uses = append(uses, lockUse{locked, int64(min(lock, host.Limit(charge)))})
		}
	}
	return uses
}

// lockedMemory returns the larger of both counts. The kernel compares each with the limit on its
// own, and counts a page of several devices, or of iommufd, in both.
func lockedMemory(u *agentapi.Usage) int64 {
	if u == nil {
		return 0
	}
	return max(u.Locked, u.Pinned)
}
