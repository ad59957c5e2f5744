// Package lifecycletest has fakes of the host for the packages below lifecycle, and conformance
// tests that the fakes and the real host pass.
package lifecycletest

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// Kernel is a fake [host.Kernel] and [supervisor.Processes]. Several goroutines may call its
// methods at once.
type Kernel struct {
	// BeforeSet, if set, is called at the start of SetMemlock, without the lock. A test can fork,
	// end a process or fail here. Set it before the first use of the kernel.
	BeforeSet func(p host.Process) error

	// Clock, if set, gives processes their start times. Set it before the first use of the kernel.
	Clock host.Clock

	// Ignores, if set, reports whether a process survives a signal, "TERM" or "KILL". Set it before
	// the first use of the kernel.
	Ignores func(pid int, signal string) bool

	mu      sync.Mutex
	handles []*handle
	signals map[int][]string
	args    map[int][]string
	ticks   uint64
	procs   map[int]process
	cgroups map[string]map[string]string // path -> file -> content
	locked  map[int]uint64               // bytes, by pid
	memory  uint64                       // available
}

type process struct {
	zombie bool
	start  uint64 // in ticks
	cgroup string
	limit  host.Rlimit
}

// named returns the process as procfs knows it.
func (p process) named(pid int) host.Process {
	named := host.ProcessAt(pid, p.start)
	named.Cgroup = p.cgroup
	return named
}

var _ host.Kernel = (*Kernel)(nil)

// NewKernel returns a kernel without processes.
func NewKernel() *Kernel {
	return &Kernel{
		procs: map[int]process{}, cgroups: map[string]map[string]string{"/": {}},
		signals: map[int][]string{}, args: map[int][]string{}, locked: map[int]uint64{},
		memory: 64 << 30,
	}
}

// Start starts a process, in place of an earlier one with the same pid.
func (k *Kernel) Start(pid int, cgroup string, limit host.Rlimit) host.Process {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mkdir(cgroup)
	k.ticks++
	if k.Clock != nil {
		k.ticks = max(k.ticks, uint64(time.Duration(k.Clock.Now())/host.Tick))
	}
	k.procs[pid] = process{start: k.ticks, cgroup: cgroup, limit: limit}
	return k.procs[pid].named(pid)
}

// Exit ends the process with this pid.
func (k *Kernel) Exit(pid int) {
	k.mu.Lock()
	delete(k.procs, pid)
	delete(k.locked, pid)
	ended := k.removeHandles(pid)
	k.mu.Unlock()
	for _, notify := range ended {
		go notify()
	}
}

// ExitUnreaped ends the process with this pid, which stays a zombie until Exit.
func (k *Kernel) ExitUnreaped(pid int) {
	k.mu.Lock()
	p := k.procs[pid]
	p.zombie = true
	k.procs[pid] = p
	delete(k.args, pid)
	ended := k.removeHandles(pid)
	k.mu.Unlock()
	for _, notify := range ended {
		go notify()
	}
}

// Write sets the content of a cgroup's file, and creates the cgroup if it is missing.
func (k *Kernel) Write(cgroup, file, content string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mkdir(cgroup)
	k.cgroups[cgroup][file] = content
}

// Rmdir removes a cgroup and all cgroups below it.
func (k *Kernel) Rmdir(cgroup string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.cgroups, func(p string, _ map[string]string) bool {
		return inside(p, cgroup)
	})
}

// mkdir creates a cgroup. The caller holds mu.
func (k *Kernel) mkdir(cgroup string) {
	for ; k.cgroups[cgroup] == nil; cgroup = path.Dir(cgroup) {
		k.cgroups[cgroup] = map[string]string{}
	}
}

func inside(cgroup, ancestor string) bool {
	return cgroup == ancestor || strings.HasPrefix(cgroup, strings.TrimSuffix(ancestor, "/")+"/")
}

// Cgroup implements [host.Kernel].
func (k *Kernel) Cgroup(pid int) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.procs[pid]
	if !ok {
		return "", fmt.Errorf("process %d: %w", pid, host.ErrGone)
	}
	return p.cgroup, nil
}

// Processes implements [host.Kernel].
func (k *Kernel) Processes(cgroup string) ([]host.Process, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cgroups[cgroup] == nil {
		return nil, fmt.Errorf("cgroup %s: %w", cgroup, host.ErrGone)
	}
	var all []host.Process
	for pid, p := range k.procs {
		if inside(p.cgroup, cgroup) && !p.zombie {
			all = append(all, p.named(pid))
		}
	}
	return all, nil
}

// Memlock implements [host.Kernel].
func (k *Kernel) Memlock(p host.Process) (host.Rlimit, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, err := k.lookup(p)
	return found.limit, err
}

// SetMemlock implements [host.Kernel].
func (k *Kernel) SetMemlock(p host.Process, limit host.Rlimit) error {
	if k.BeforeSet != nil {
		if err := k.BeforeSet(p); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	found, err := k.lookup(p)
	if err != nil {
		return err
	}
	found.limit = limit
	k.procs[p.PID] = found
	return nil
}

// SetLocked sets the locked memory of a process in bytes.
func (k *Kernel) SetLocked(pid int, bytes uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.locked[pid] = bytes
}

// Locked implements [host.Kernel].
func (k *Kernel) Locked(p host.Process) (uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, err := k.lookup(p)
	return k.locked[p.PID], err
}

// SetMemAvailable sets the available memory of the node in bytes.
func (k *Kernel) SetMemAvailable(bytes uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.memory = bytes
}

// MemAvailable implements [host.Kernel].
func (k *Kernel) MemAvailable() (uint64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.memory, nil
}

// lookup returns the process if it has not ended. The caller holds mu.
func (k *Kernel) lookup(p host.Process) (process, error) {
	found, ok := k.procs[p.PID]
	if !ok || found.start != p.Ticks() {
		return process{}, fmt.Errorf("process %d: %w", p.PID, host.ErrGone)
	}
	return found, nil
}

// ReadCgroup implements [host.Kernel].
func (k *Kernel) ReadCgroup(cgroup, file string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	content, ok := k.cgroups[cgroup][file]
	switch {
	case ok:
		return content, nil
	case k.cgroups[cgroup] == nil || file != "cgroup.procs":
		return "", &fs.PathError{Op: "open", Path: path.Join(cgroup, file), Err: fs.ErrNotExist}
	}
	for pid, p := range k.procs {
		if p.cgroup == cgroup && !p.zombie {
			content += strconv.Itoa(pid) + "\n"
		}
	}
	return content, nil
}
