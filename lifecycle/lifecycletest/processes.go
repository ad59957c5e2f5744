package lifecycletest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
)

var _ supervisor.Processes = (*Kernel)(nil)

// handle is an open handle of a fake process.
type handle struct {
	kernel  *Kernel
	process host.Process
	ended   func()
}

// OpenHandle implements [supervisor.Processes].
func (k *Kernel) OpenHandle(p host.Process, ended func()) (host.Handle, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, err := k.lookup(p)
	if err == nil && found.zombie {
		err = fmt.Errorf("process %d is a zombie: %w", p.PID, host.ErrGone)
	}
	if err != nil {
		return nil, err
	}
	h := &handle{k, p, ended}
	k.handles = append(k.handles, h)
	return h, nil
}

// Terminate implements [host.Handle].
func (h *handle) Terminate() error { return h.kernel.signal(h, "TERM") }

// Kill implements [host.Handle].
func (h *handle) Kill() error { return h.kernel.signal(h, "KILL") }

// Close implements [host.Handle].
func (h *handle) Close() error {
	h.kernel.mu.Lock()
	defer h.kernel.mu.Unlock()
	isH := func(other *handle) bool { return other == h }
	h.kernel.handles = slices.DeleteFunc(h.kernel.handles, isH)
	return nil
}

// Signals returns the signals sent to a pid, in order.
func (k *Kernel) Signals(pid int) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.signals[pid])
}

// signal records a signal. The process ends unless it ignores the signal: see [Kernel.Ignores].
func (k *Kernel) signal(h *handle, name string) error {
	k.mu.Lock()
	found, err := k.lookup(h.process)
	dies := err == nil && !found.zombie && (k.Ignores == nil || !k.Ignores(h.process.PID, name))
	if err == nil {
		k.signals[h.process.PID] = append(k.signals[h.process.PID], name)
	}
	k.mu.Unlock()
	if dies {
		k.Exit(h.process.PID)
	}
	return err
}

// removeHandles removes the handles of a process and returns their callbacks. The caller holds mu.
func (k *Kernel) removeHandles(pid int) (ended []func()) {
	k.handles = slices.DeleteFunc(k.handles, func(h *handle) bool {
		if h.process.PID == pid {
			ended = append(ended, h.ended)
		}
		return h.process.PID == pid
	})
	return ended
}

// Members implements [supervisor.Processes].
func (k *Kernel) Members(cgroup string) ([]host.Process, error) {
	all, err := k.Processes(cgroup)
	if errors.Is(err, host.ErrGone) {
		return nil, nil
	}
	return all, err
}

// Identify implements [supervisor.Processes].
func (k *Kernel) Identify(pid int) (host.Process, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.procs[pid]
	if !ok {
		return host.Process{}, fmt.Errorf("process %d: %w", pid, host.ErrGone)
	}
	return p.named(pid), nil
}

// Arguments implements [supervisor.Processes].
func (k *Kernel) Arguments(p host.Process) ([]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := k.lookup(p); err != nil {
		return nil, err
	}
	return slices.Clone(k.args[p.PID]), nil
}

// SetArguments sets the command line of a pid.
func (k *Kernel) SetArguments(pid int, args ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.args[pid] = args
}

// KillCgroup implements [supervisor.Processes].
func (k *Kernel) KillCgroup(cgroup string) error {
	k.mu.Lock()
	if k.cgroups[cgroup] == nil {
		k.mu.Unlock()
		return fmt.Errorf("cgroup %s: %w", cgroup, host.ErrGone)
	}
	procs := maps.Clone(k.procs)
	k.mu.Unlock()
	for pid, p := range procs {
		if inside(p.cgroup, cgroup) {
			k.Exit(pid)
		}
	}
	return nil
}

// PodCgroupExists implements [supervisor.Processes]: see [Kernel.Write].
func (k *Kernel) PodCgroupExists(uid string) (bool, error) {
	return k.Exists("/kubepods/pod" + uid)
}

// Exists implements [supervisor.Processes].
func (k *Kernel) Exists(cgroup string) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cgroups[cgroup] != nil, nil
}
