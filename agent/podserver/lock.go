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

// logChange logs a changed memory-lock limit, a few times a minute: a pod can ask for the same
// limit again, and for two limits in turn.
func (p *pod) logChange(vm host.Process, before host.Rlimit) {
	now, err := p.node.Kernel.Memlock(vm)
	if err != nil || now == before || !p.lockLogRate.Allow() {
		return
	}
	p.node.Logger.Info("memory lock of a VM changed", "uid", p.uid, "pid", vm.PID, "memlock",
		now.Soft, "before", before.Soft)
}

// raise asks for a decision and records it in the node's account before the process gets the limit.
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

// effectiveLock is the limit of a process after a failed change from one limit to another.
func (p *pod) effectiveLock(vm host.Process, one, other host.Limit) host.Limit {
	now, err := p.node.Kernel.Memlock(vm)
	if err != nil {
		return max(one, other) // the safe side; an ended process charges nothing
	}
	return min(max(now.Soft, one), max(one, other))
}

// lower changes the limit of the process before it frees the difference for other pods.
func (p *pod) lower(l registry.Launcher, vm host.Process, to host.Limit) error {
	if given := l.Given.Memlock; given != nil && to < *given {
		return refusal(podapi.CodeRefused, "memory lock: %s is below the %s that the agent gave "+
			"the launcher", to, *given)
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

// recordLock records the limit that the process has now.
func (p *pod) recordLock(l registry.Launcher, vm host.Process, lock host.Limit) {
	p.node.Registry.Update(l.Container.ID, func(now *registry.Launcher) {
		now.SetLock(vm, lock)
		now.ObserveLock(vm, lock)
	})
}

// RequireMemory implements [Pod].
func (p *pod) RequireMemory(request podapi.MemoryRequirement) error {
	if err := p.checkEnforced(); err != nil {
		return err
	}
	p.requirementMu.Lock() // store and registry get the same latest value
	defer p.requirementMu.Unlock()
	l, vm, err := p.vm()
	if err != nil {
		if *request.Bytes == 0 {
			return nil // no VM process, no requirement
		}
		return err
	}
	p.node.Registry.Update(l.Container.ID, func(now *registry.Launcher) {
		now.SetMemoryRequirement(vm, uint64(*request.Bytes))
	})
	if err := p.storeRequirement(Requirement{PID: vm.PID, StartTime: vm.Ticks(),
		Bytes: uint64(*request.Bytes)}); err != nil {
		p.node.Logger.Warn("storing the memory requirement of a VM failed; a restarted agent "+
			"will not know it", "uid", p.uid, "pid", vm.PID, "error", err)
	}
	return nil
}

// storeRequirement stores the memory requirement for the next agent.
func (p *pod) storeRequirement(need Requirement) error {
	p.node.storeMu.Lock()
	defer p.node.storeMu.Unlock()
	record, err := p.node.Store.Get(p.uid)
	switch {
	case err != nil:
		return err
	case record.Requirement != nil && *record.Requirement == need, record.Requirement == nil &&
		need.Bytes == 0:
		return nil
	case need.Bytes == 0:
		record.Requirement = nil
	default:
		record.Requirement = &need
	}
	return p.node.Store.Put(p.uid, record)
}

// RestoreRequirements loads the memory requirements of VMs from the store into the registry.
func (n *Node) RestoreRequirements() { n.Registry.RestoreRequirements(n.Store.Requirements()) }
