package host

import (
	"errors"
	"strings"
	"time"
)

// Tick is the unit of start times in procfs. USER_HZ is 100 on all architectures on which Linux
// runs VMs.
const Tick = 10 * time.Millisecond

// Process identifies a process. A pid can be reused, but not with the same start time. Compare
// processes with [Process.Same], and use [Process.ID] as the key of a map.
type Process struct {
	PID int

	// StartTime is in nanoseconds after boot. procfs only has whole ticks, so a multiple of [Tick]
	// stands for any time in that tick.
	StartTime uint64

	Cgroup string // at the time of the scan, below the root of the hierarchy
}

// ProcessAt returns the process with a start time in clock ticks after boot, as in field 22 of
// proc_pid_stat(5).
func ProcessAt(pid int, ticks uint64) Process {
	return Process{PID: pid, StartTime: ticks * uint64(Tick)}
}

// Ticks returns the start time in clock ticks after boot.
func (p Process) Ticks() uint64 { return p.StartTime / uint64(Tick) }

// exact reports whether the start time is known to the nanosecond.
func (p Process) exact() bool { return p.StartTime%uint64(Tick) != 0 }

// ErrGone reports that a process, or its cgroup, is gone.
var ErrGone = errors.New("gone")

// Kernel is the guard's view of the kernel. Cgroup paths are below the root of the cgroup v2
// hierarchy and start with "/". The methods make local system calls, do not block, and may be
// called concurrently.
type Kernel interface {
	// Cgroup returns the cgroup of a process, or [ErrGone].
	Cgroup(pid int) (string, error)

	// Processes lists the processes of a cgroup and its descendants in no order. It skips vanished
	// ones. A missing cgroup is [ErrGone].
	Processes(cgroup string) ([]Process, error)

	// Memlock reads RLIMIT_MEMLOCK, or returns [ErrGone].
	Memlock(p Process) (Rlimit, error)

	// SetMemlock sets RLIMIT_MEMLOCK. It fails with [ErrGone] if the pid belongs to another
	// process. If the pid is reused between check and system call, the other process has the limit
	// for a moment, and then its own again.
	SetMemlock(p Process, limit Rlimit) error

	// Locked returns the bytes locked by a process: the larger of VmLck (mlock(2), VFIO) and VmPin
	// (RDMA, vDPA, iommufd). The kernel compares each with the limit on its own, and a page may be
	// in both. [ErrGone] after its end.
	Locked(p Process) (uint64, error)

	// MemAvailable returns the bytes of memory available without swapping: proc_meminfo(5).
	MemAvailable() (uint64, error)

	// ReadCgroup reads a file of a cgroup. The error wraps fs.ErrNotExist if the file or the cgroup
	// is missing.
	ReadCgroup(cgroup, file string) (string, error)
}

// ContainerCgroup returns the container's cgroup from the cgroup of one of its processes. Runtimes
// name it after the container's ID. crun or the container itself may have created cgroups below. ok
// is false if no part of the path has the ID, so the process is outside of the container.
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

// InCgroup reports whether a cgroup is the ancestor or one of its descendants.
func InCgroup(cgroup, ancestor string) bool {
	return cgroup == ancestor || strings.HasPrefix(cgroup, strings.TrimSuffix(ancestor, "/")+"/")
}

// Same reports whether both are the same process, in any cgroup. If one start
// time is known in ticks only, ticks decide.
func (p Process) Same(other Process) bool {
	if p.exact() && other.exact() && p.StartTime != other.StartTime {
		return false
	}
	return p.PID == other.PID && p.Ticks() == other.Ticks()
}

// ID returns the process without its cgroup and with its start time in whole ticks, which every
// source knows.
func (p Process) ID() Process { return ProcessAt(p.PID, p.Ticks()) }

// StartedBefore reports whether the process certainly started before b.
func (p Process) StartedBefore(b Boottime) bool {
	if p.exact() {
		return Boottime(p.StartTime) < b
	}
	return Boottime(p.StartTime).Add(Tick) <= b
}

// StartedAfter reports whether the process certainly started after b.
func (p Process) StartedAfter(b Boottime) bool { return Boottime(p.StartTime) > b }

// Handle is an open process. A signal reaches this process or none.
type Handle interface {
	// Terminate sends SIGTERM, Kill sends SIGKILL; [ErrGone] after the process was reaped.
	Terminate() error
	Kill() error

	// Close closes the handle.
	Close() error
}
