package registry

import (
	"errors"
	"fmt"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// Live is what a running VM process has got beyond what was decided when its launcher
// was created: by a resize. It ends with the process. A Live is never changed, but
// replaced.
type Live struct {
	Process host.Process

	// Lock is what the process may lock; nil: what its launcher was given.
	Lock *host.Limit

	// Need is what the memory limit of the launcher has to be at least, in bytes; 0:
	// the VM says nothing about it.
	Need uint64
}

// ContainerLimits are limits of a container, as the runtime was asked for them last.
// Memory is in bytes, CPU in thousandths of a CPU; 0 is no limit.
type ContainerLimits struct {
	Memory, CPU int64
}

// ErrNoVM says that a launcher has no VM process, or none that could be meant.
var ErrNoVM = errors.New("no VM process runs")

// VM returns the VM process of the launcher. Where there is none, or another one is
// ending beside it, the error wraps [ErrNoVM].
func (l *Launcher) VM() (host.Process, error) {
	switch {
	case len(l.VMs) > 1:
		return host.Process{}, fmt.Errorf("%w alone: the launcher has %d VM processes", ErrNoVM, len(l.VMs))
	case len(l.VMs) == 0:
		return host.Process{}, fmt.Errorf("%w in the launcher", ErrNoVM)
	case l.VMs[0].State != agentapi.VMRunning:
		return host.Process{}, fmt.Errorf("%w in the launcher: process %d is %s", ErrNoVM, l.VMs[0].PID, l.VMs[0].State)
	}
	return host.Process{PID: l.VMs[0].PID, StartTime: l.VMs[0].StartTime}, nil
}

// SetLock says what the launcher's VM process may lock from now on. What is no more
// than the launcher was given is as if nothing was said.
func (l *Launcher) SetLock(vm host.Process, lock host.Limit) {
	next := l.liveOf(vm)
	next.Lock = &lock
	if given := l.Given.Memlock; given != nil && lock <= *given {
		next.Lock = nil
	}
	l.Live = &next
}

// SetNeed says what the VM process needs as the memory limit of its launcher; 0:
// nothing.
func (l *Launcher) SetNeed(vm host.Process, bytes uint64) {
	next := l.liveOf(vm)
	next.Need = bytes
	l.Live = &next
}

// liveOf returns a copy of what is known of the process.
func (l *Launcher) liveOf(vm host.Process) Live {
	if l.Live != nil && l.Live.Process == vm.ID() {
		return *l.Live
	}
	return Live{Process: vm.ID()}
}

// Needs is what the memory limit of the launcher has to be at least, in bytes.
func (l *Launcher) Needs() uint64 {
	if l.Live == nil {
		return 0
	}
	return l.Live.Need
}

// VMLock is what a VM process of the launcher is to have.
func (l *Launcher) VMLock(vm host.Process) host.Limit {
	var lock host.Limit
	if l.Given.Memlock != nil {
		lock = *l.Given.Memlock
	}
	if live := l.liveOf(vm); live.Lock != nil {
		lock = max(lock, *live.Lock)
	}
	return lock
}

// LearnLock takes over what a VM process really has, where that is more than it was
// given and nothing is known of why: an earlier agent may have raised it. What is above
// the ceiling was somebody else's doing, and is not the launcher's.
func (l *Launcher) LearnLock(vm host.Process, has host.Limit) {
	if l.Ceiling == nil || !l.vmProcesses()[vm.ID()] || l.Live != nil && l.Live.Lock != nil {
		return
	}
	if has = min(has, *l.Ceiling); has > l.VMLock(vm) && (l.Demand == nil || has > *l.Demand) {
		l.SetLock(vm, has)
	}
}

// settleLive ends what a VM process had that is gone.
func (l *Launcher) settleLive() {
	if l.Live != nil && !l.vmProcesses()[l.Live.Process] {
		l.Live = nil
	}
}
