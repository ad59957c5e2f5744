package registry

import (
	"errors"
	"fmt"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// Live holds limits of a running VM process beyond the limits from its creation. They end with the
// process. A Live is immutable.
type Live struct {
	Process host.Process

	// Lock is the granted memory-lock limit of the process; nil: the launcher's limit.
	Lock *host.Limit

	// Observed is the process's limit in the kernel, up to the ceiling, while it is above the
	// granted one. libvirt has raised it for a device, or an earlier agent for a resize. 0: it is
	// not above.
	Observed host.Limit

	// MemoryRequirement is the minimum for the launcher's memory limit in bytes; 0: the VM did not
	// report any.
	MemoryRequirement uint64
}

// UnknownRequirement is the memory requirement of a VM process that may have reported one to an
// earlier agent. It is above each memory limit.
const UnknownRequirement = uint64(host.Unlimited)

// ContainerLimits are the limits in the latest request to the runtime. Memory is in bytes, CPU in
// thousandths of a CPU; 0 is no limit.
type ContainerLimits struct {
	Memory, CPU int64
}

// ErrNoVM reports that a launcher has no VM process, or several.
var ErrNoVM = errors.New("no VM process runs")

// VM returns the launcher's VM process. The error wraps [ErrNoVM] if there is none, or another one
// is still ending.
func (l *Launcher) VM() (host.Process, error) {
	switch {
	case len(l.VMs) > 1:
		return host.Process{}, fmt.Errorf("%w alone: the launcher has %d VM processes",
			ErrNoVM, len(l.VMs))
	case len(l.VMs) == 0:
		return host.Process{}, fmt.Errorf("%w in the launcher", ErrNoVM)
	case l.VMs[0].State != agentapi.VMRunning:
		return host.Process{}, fmt.Errorf("%w in the launcher: process %d is %s", ErrNoVM,
			l.VMs[0].PID, l.VMs[0].State)
	}
	return host.ProcessAt(l.VMs[0].PID, l.VMs[0].StartTime), nil
}

// SetLock sets the granted memory-lock limit of the VM process. A limit up to the launcher's own
// removes the extra limit.
func (l *Launcher) SetLock(vm host.Process, lock host.Limit) {
	next := l.liveOf(vm)
	next.Lock = &lock
	if given := l.Given.Memlock; given != nil && lock <= *given {
		next.Lock = nil
	}
	if next.Observed <= lock {
		next.Observed = 0
	}
	l.Live = &next
}

// SetMemoryRequirement sets the minimum that the VM process reported for its launcher's memory
// limit; 0: none.
func (l *Launcher) SetMemoryRequirement(vm host.Process, bytes uint64) {
	next := l.liveOf(vm)
	next.MemoryRequirement = bytes
	l.Live = &next
}

// liveOf returns a copy of the process's Live.
func (l *Launcher) liveOf(vm host.Process) Live {
	if l.Live != nil && l.Live.Process == vm.ID() {
		return *l.Live
	}
	return Live{Process: vm.ID()}
}

// MemoryRequirement returns the minimum for the launcher's memory limit in bytes.
func (l *Launcher) MemoryRequirement() uint64 {
	if l.Live == nil {
		return 0
	}
	return l.Live.MemoryRequirement
}

// liveLock returns the highest limit that a resize, or another program, gave the VM process; nil:
// none.
func (l *Launcher) liveLock() *host.Limit {
	switch {
	case l.Live == nil:
		return nil
	case l.Live.Lock == nil && l.Live.Observed == 0:
		return nil
	case l.Live.Lock == nil || *l.Live.Lock < l.Live.Observed:
		return &l.Live.Observed
	}
	return l.Live.Lock
}

// VMLock returns the limit of a VM process in the node's account: the granted one, or a higher one
// in the kernel.
func (l *Launcher) VMLock(vm host.Process) host.Limit {
	return max(l.GrantedLock(vm), l.ObservedLock(vm))
}

// ObservedLock returns the limit of a VM process in the kernel, up to the ceiling, if it is above
// the granted one; 0: it is not.
func (l *Launcher) ObservedLock(vm host.Process) host.Limit { return l.liveOf(vm).Observed }

// GrantedLock returns the granted limit of a VM process.
func (l *Launcher) GrantedLock(vm host.Process) host.Limit {
	var lock host.Limit
	if l.Given.Memlock != nil {
		lock = *l.Given.Memlock
	}
	if live := l.liveOf(vm); live.Lock != nil {
		lock = max(lock, *live.Lock)
	}
	return lock
}

// ObserveLock records the limit of a VM process in the kernel. It ignores a part above the ceiling,
// and a limit up to the granted one.
func (l *Launcher) ObserveLock(vm host.Process, has host.Limit) {
	if l.Ceiling == nil || !l.vmProcesses()[vm.ID()] {
		return
	}
	has = min(has, *l.Ceiling)
	if has <= l.GrantedLock(vm) || l.Demand != nil && has <= *l.Demand {
		has = 0
	}
	if next := l.liveOf(vm); next.Observed != has {
		next.Observed = has
		l.Live = &next
	}
}

// dropStaleLive removes the Live of a process that is gone.
func (l *Launcher) dropStaleLive() {
	if l.Live != nil && !l.vmProcesses()[l.Live.Process] {
		l.Live = nil
	}
}
