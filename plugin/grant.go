package plugin

import (
	"fmt"

	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// GrantLock decides about a larger memory lock of a running VM process, and charges it to the
// node's account if the policy allows it. The decision shares its lock with CreateContainer, so
// that two requests cannot both take the rest of the account. It only calculates: the caller sets
// the limit of the process.
func (p *Plugin) GrantLock(containerID string, vm host.Process, lock host.Limit) (err error) {
	p.settle(func() (again bool) {
		again, err = p.grantLock(containerID, vm, lock)
		return again
	})
	return err
}

func (p *Plugin) grantLock(
	containerID string, vm host.Process, lock host.Limit,
) (again bool, err error) {
	l, ok := p.Registry.Find(containerID)
	if !ok {
		return false, fmt.Errorf("container %s is no launcher any more", containerID)
	}
	facts, exact := p.raiseFacts(&l)
	facts.Current, facts.Desired = l.VMLock(vm), lock
	if err := decide.Raise(p.Policy.Get(), facts); err != nil || lock <= l.GrantedLock(vm) {
		return err != nil && !exact, err
	}
	p.Registry.Update(containerID, func(now *registry.Launcher) { now.SetLock(vm, lock) })
	return false, nil
}

// raiseFacts returns the facts about a running launcher. exact is as for granted. The caller holds
// deciding.
func (p *Plugin) raiseFacts(l *registry.Launcher) (facts decide.RaiseFacts, exact bool) {
	f := decide.Facts{
		Pod: l.Pod, Container: l.Container.Name,
		MemoryLimit: l.MemoryLimit, HugePages: l.HugePages, Outside: l.Domain != "",
		NodeMemory: p.NodeMemory,
	}
	f.NodeGranted, exact = p.granted(l.Key(), l.Container.ID)
	f.ServiceAccount, f.ServiceAccountKnown = p.serviceAccount(l.Pod.UID)
	return decide.RaiseFacts{Facts: f, Refusal: l.Refusal, Charged: l.Charge()}, exact
}

// serviceAccount returns the service account of a pod, if it is known.
func (p *Plugin) serviceAccount(podUID string) (name string, known bool) {
	if p.Accounts == nil {
		return "", false
	}
	return p.Accounts.ServiceAccount(podUID)
}
