package podserver

import (
	"errors"
	"path"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// Observed implements [Pod].
func (p *pod) Observed() (podapi.Observed, error) {
	l, err := p.launcher()
	if err != nil {
		return podapi.Observed{}, err
	}
	cgroup, err := p.node.Cgroup(l)
	if err != nil {
		return podapi.Observed{}, refusalIfGone(err)
	}
	podMax, containerMax, err := p.memoryLimits(cgroup)
	room, roomErr := host.AvailableMemory(p.node.Kernel, path.Dir(cgroup))
	if err := errors.Join(err, roomErr); err != nil {
		return podapi.Observed{}, err
	}
	room -= min(room, p.node.growths.reservedBeside(p.uid))
	seen := podapi.Observed{PodMax: podMax, ContainerMax: containerMax,
		Available: podapi.Amount(room)}
	return seen, refusalIfGone(p.observeVM(&l, &seen))
}

// memoryLimits reads memory.max of the cgroups of the pod and of its launcher. The pod's cgroup is
// the parent of the launcher's.
func (p *pod) memoryLimits(cgroup string) (pod, container podapi.Amount, err error) {
	above, err := host.MemoryMax(p.node.Kernel, path.Dir(cgroup))
	own, ownErr := host.MemoryMax(p.node.Kernel, cgroup)
	return amount(above), amount(own), errors.Join(err, ownErr)
}

// observeVM adds the state of the VM process, if there is one.
func (p *pod) observeVM(l *registry.Launcher, seen *podapi.Observed) error {
	if l.Given.Memlock != nil {
		seen.Floor = amount(*l.Given.Memlock)
	}
	seen.Ceiling = seen.Floor
	if l.Ceiling != nil {
		seen.Ceiling = max(seen.Floor, amount(*l.Ceiling))
	}
	vm, err := l.VM()
	if err != nil {
		return nil //nolint:nilerr // without a VM process its fields stay 0
	}
	limit, err := p.node.Kernel.Memlock(vm)
	if err != nil {
		return err
	}
	locked, err := p.node.Kernel.Locked(vm)
	seen.VM, seen.VMStart = vm.PID, vm.Ticks()
	seen.Lock, seen.Locked = amount(limit.Soft), podapi.Amount(locked)
	return err
}

// Summary implements [Pod]. An unreadable value is 0.
func (p *pod) Summary() Summary {
	var g Summary
	wanted, _ := p.Desired()
	g.Generation = wanted.Generation
	if wanted.DryRun != nil {
		g.DryRun = wanted.DryRun.Generation
	}
	stop, _ := p.Stop()
	g.Stop = stop.Requested
	l, err := p.launcher()
	if err != nil {
		return g
	}
	if cgroup, err := p.node.Cgroup(l); err == nil {
		g.PodMax, g.ContainerMax, _ = p.memoryLimits(cgroup)
	}
	if vm, err := l.VM(); err == nil {
		limit, _ := p.node.Kernel.Memlock(vm)
		g.VM, g.Lock = vm.PID, amount(limit.Soft)
	}
	return g
}
