package podserver

import (
	"errors"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// Lock implements [Pod].
func (p *pod) Lock(request podapi.Lock) error {
	if err := p.checkEnforced(); err != nil {
		return err
	}
	p.lockMu.Lock()
	defer p.lockMu.Unlock()
	l, vm, err := p.vm()
	if err != nil {
		return err
	}
	before, err := p.node.Kernel.Memlock(vm)
	if err != nil {
		return refusalIfGone(err)
	}
	defer p.logChange(vm, before)
	if request.AtLeast != nil {
		return refusalIfGone(p.raise(l, vm, host.Limit(*request.AtLeast)))
	}
	return refusalIfGone(p.lower(l, vm, host.Limit(*request.AtMost)))
}

// logChange has the log tell of a lock that is another one than before, a few times a
// minute: a pod can ask for the one that it has, and for two in turn.
func (p *pod) logChange(vm host.Process, before host.Rlimit) {
	now, err := p.node.Kernel.Memlock(vm)
	if err != nil || now == before || !p.lockLogRate.Allow() {
		return
	}
	p.node.Logger.Info("memory lock of a VM changed", "uid", p.uid, "pid", vm.PID, "memlock", now.Soft, "before", before.Soft)
}

// raise has the lock decided on and entered before the process gets it: what it may lock
// is counted from then on.
func (p *pod) raise(l registry.Launcher, vm host.Process, to host.Limit) error {
	before := l.VMLock(vm)
	if err := p.node.Grant(l.Container.ID, vm, to); err != nil {
		return refusal(podapi.CodeRefused, "memory lock: %v", err)
	}
	err := host.RaiseMemlock(p.node.Kernel, vm, to)
	if err != nil {
		p.recordLock(l, vm, p.effectiveLock(vm, before, to))
	}
	return err
}

// has is what a process may lock after an attempt to change it from one to another.
func (p *pod) effectiveLock(vm host.Process, one, other host.Limit) host.Limit {
	now, err := p.node.Kernel.Memlock(vm)
	if err != nil {
		return max(one, other) // the safe side; if it is gone, it holds nothing
	}
	return min(max(now.Soft, one), max(one, other))
}

// lower has the process hold to the new lock before others can have the rest.
func (p *pod) lower(l registry.Launcher, vm host.Process, to host.Limit) error {
	if given := l.Given.Memlock; given != nil && to < *given {
		return refusal(podapi.CodeRefused, "memory lock: %s is less than the %s that the launcher was given", to, *given)
	}
	err := host.LowerMemlock(p.node.Kernel, vm, to)
	switch {
	case errors.Is(err, host.ErrLocked):
		return refusal(podapi.CodeLocked, "memory lock: %v", err)
	case err != nil:
		return err
	}
	if to < l.VMLock(vm) {
		p.recordLock(l, vm, to)
	}
	return nil
}

func (p *pod) recordLock(l registry.Launcher, vm host.Process, lock host.Limit) {
	p.node.Registry.Update(l.Container.ID, func(now *registry.Launcher) { now.SetLock(vm, lock) })
}

// Need implements [Pod].
func (p *pod) RequireMemory(request podapi.MemoryRequirement) error {
	if err := p.checkEnforced(); err != nil {
		return err
	}
	p.requirementMu.Lock() // what is stored last is what the registry has last
	defer p.requirementMu.Unlock()
	l, vm, err := p.vm()
	if err != nil {
		if *request.Bytes == 0 {
			return nil // nothing needs anything
		}
		return err
	}
	p.node.Registry.Update(l.Container.ID, func(now *registry.Launcher) { now.SetMemoryRequirement(vm, uint64(*request.Bytes)) })
	if err := p.storeRequirement(Requirement{PID: vm.PID, StartTime: vm.StartTime, Bytes: uint64(*request.Bytes)}); err != nil {
		p.node.Logger.Warn("what a VM needs will be forgotten if the agent restarts", "uid", p.uid, "pid", vm.PID, "error", err)
	}
	return nil
}

// keepNeed leaves what the VM needs for an agent that comes after this one.
func (p *pod) storeRequirement(need Requirement) error {
	p.node.storeMu.Lock()
	defer p.node.storeMu.Unlock()
	asked, _ := p.node.Store.Get(p.uid)
	switch {
	case asked.Requirement != nil && *asked.Requirement == need, asked.Requirement == nil && need.Bytes == 0:
		return nil
	case need.Bytes == 0:
		asked.Requirement = nil
	default:
		asked.Requirement = &need
	}
	return p.node.Store.Put(p.uid, asked)
}

// RecallNeeds has the registry know what VMs have told an agent before this one that
// they need.
func (n *Node) RestoreRequirements() { n.Registry.RestoreRequirements(n.Store.Requirements()) }
