package host

import (
	"errors"
	"strings"
	"time"
)

// Tick is the unit of start times in procfs: USER_HZ is 100 on all architectures that
// Linux runs VMs on.
const Tick = 10 * time.Millisecond

// Process names one process for all time: pids are used again, but not with the
// same start time.
type Process struct {
	PID       int
	StartTime uint64 // clock ticks after boot, field 22 of proc_pid_stat(5)
	Cgroup    string // where it was found, below the root of the hierarchy
}

// ErrGone says that a process, or the cgroup it lived in, is gone.
var ErrGone = errors.New("gone")

// Kernel is what the guard asks of the kernel. Paths of cgroups are below the
// root of the cgroup v2 hierarchy and begin with "/". The methods make local
// system calls, do not wait, and may be called from several goroutines at once.
type Kernel interface {
	// Cgroup returns the cgroup of a process, [ErrGone] when there is none.
	Cgroup(pid int) (string, error)

	// Processes lists the processes of a cgroup and of all below it, in no
	// order. What vanishes meanwhile is left out; a cgroup that does not
	// exist is [ErrGone].
	Processes(cgroup string) ([]Process, error)

	// Memlock reads RLIMIT_MEMLOCK, [ErrGone] when that process is gone.
	Memlock(p Process) (Rlimit, error)

	// SetMemlock sets RLIMIT_MEMLOCK. It fails with [ErrGone] when the pid has
	// become another process's. If that happens between looking and setting,
	// the other process has the limit for a moment and then its own again.
	SetMemlock(p Process, limit Rlimit) error

	// Locked returns how many bytes a process has locked: what mlock(2) and VFIO count
	// (VmLck) and what RDMA and the like count (VmPin). [ErrGone] when it has ended.
	Locked(p Process) (uint64, error)

	// MemAvailable returns how many bytes of memory the node can give away without
	// swapping: proc_meminfo(5).
	MemAvailable() (uint64, error)

	// ReadCgroup reads a file of a cgroup. The error wraps fs.ErrNotExist
	// when the cgroup has no such file, or is gone itself.
	ReadCgroup(cgroup, file string) (string, error)
}

// ContainerCgroup returns the ancestor of a process's cgroup that is the
// container's: runtimes name it after the container's ID; crun, or what runs
// inside, may have made cgroups below. ok is false when no part of the path has
// the ID, so the process is none of that container's.
func ContainerCgroup(path, containerID string) (cgroup string, ok bool) {
	if containerID == "" {
		return "", false
	}
	at := strings.Index(path, containerID)
	if at < 0 {
		return "", false
	}
	end := at + len(containerID)
	if below := strings.IndexByte(path[end:], '/'); below >= 0 {
		return path[:end+below], true
	}
	return path, true
}

// InCgroup reports whether a cgroup is the ancestor itself, or below it.
func InCgroup(cgroup, ancestor string) bool {
	return cgroup == ancestor || strings.HasPrefix(cgroup, strings.TrimSuffix(ancestor, "/")+"/")
}

// Same reports whether both are one process, wherever it has moved meanwhile.
func (p Process) Same(other Process) bool {
	return p.PID == other.PID && p.StartTime == other.StartTime
}

// ID is the process without the cgroup that it was found in.
func (p Process) ID() Process { return Process{PID: p.PID, StartTime: p.StartTime} }

// StartedBefore reports whether the process surely started before that moment: its
// start time is known in ticks.
func (p Process) StartedBefore(b Boottime) bool {
	return Boottime(p.StartTime+1)*Boottime(Tick) <= b
}

// Handle is a process that a signal reaches, or nobody.
type Handle interface {
	// Terminate sends SIGTERM, Kill SIGKILL; [ErrGone] when it has been reaped.
	Terminate() error
	Kill() error

	// Close gives the handle back.
	Close() error
}
