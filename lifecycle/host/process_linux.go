package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// LinuxKernel asks the running kernel, through prlimit(2), procfs and cgroupfs.
// Reading another user's limits needs CAP_SYS_PTRACE or CAP_SYS_RESOURCE, raising
// a hard limit CAP_SYS_RESOURCE. Pids are those of the pid namespace that Proc
// was mounted in, which must be the agent's own.
type LinuxKernel struct {
	proc   string // mount point of procfs
	cgroup string // mount point of the cgroup v2 hierarchy
	nsRoot string // root of this process's cgroup namespace, below cgroup
}

var _ Kernel = (*LinuxKernel)(nil)

// Memlock implements [Kernel].
func (k *LinuxKernel) Memlock(p Process) (Rlimit, error) {
	fd, err := k.open(p)
	if err != nil {
		return Rlimit{}, err
	}
	defer unix.Close(fd)
	limit, err := prlimit(p.PID, nil)
	if err == nil {
		err = stillThere(fd)
	}
	return limit, err
}

// SetMemlock implements [Kernel].
func (k *LinuxKernel) SetMemlock(p Process, limit Rlimit) error {
	fd, err := k.open(p)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return setMemlock(p.PID, limit, func() error { return stillThere(fd) })
}

// Locked implements [Kernel].
func (k *LinuxKernel) Locked(p Process) (uint64, error) {
	status, err := k.readProc(p.PID, "status")
	if err == nil {
		err = k.is(p)
	}
	if err != nil {
		return 0, err
	}
	locked, err := parseLocked(status)
	if err != nil {
		return 0, fmt.Errorf("process %d: %w", p.PID, err)
	}
	return locked, nil
}

// MemAvailable implements [Kernel].
func (k *LinuxKernel) MemAvailable() (uint64, error) {
	content, err := os.ReadFile(filepath.Join(k.proc, "meminfo"))
	if err != nil {
		return 0, fmt.Errorf("memory of the node: %w", err)
	}
	available, ok := kibibytes(string(content), "MemAvailable:")
	if !ok {
		return 0, fmt.Errorf("memory of the node: no MemAvailable in %.80q", content)
	}
	return available, nil
}

// setMemlock calls prlimit(2), which knows pids only: in the moment since the
// process was looked at, its pid may have become another's. same tells afterwards,
// and then the other one gets its limit back.
func setMemlock(pid int, limit Rlimit, same func() error) error {
	old, err := prlimit(pid, &limit)
	if err != nil {
		return err
	}
	if err := same(); err != nil {
		return errors.Join(err, giveBack(pid, limit, old))
	}
	return nil
}

// giveBack sets the old limit again, unless the process has another one than was
// set: then it is not the one that the limit was taken from, but one that came
// after it.
func giveBack(pid int, set, old Rlimit) error {
	now, err := prlimit(pid, nil)
	if err == nil && now == set && old != set {
		_, err = prlimit(pid, &old)
	}
	if errors.Is(err, ErrGone) {
		return nil
	}
	return err
}

// stillThere returns ErrGone once the process has been reaped. Until then its pid
// is not another's.
func stillThere(pidfd int) error {
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("the process that was meant: %w", ErrGone)
	}
	return nil
}

// prlimit returns the limit of the process that has the pid now, as it was
// before, and sets it unless set is nil.
func prlimit(pid int, set *Rlimit) (Rlimit, error) {
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_MEMLOCK, toUnix(set), &old); err != nil {
		return Rlimit{}, fmt.Errorf("prlimit of process %d: %w", pid, goneIf(err, unix.ESRCH))
	}
	return Rlimit{Soft: Limit(old.Cur), Hard: Limit(old.Max)}, nil
}

func toUnix(l *Rlimit) *unix.Rlimit {
	if l == nil {
		return nil
	}
	return &unix.Rlimit{Cur: uint64(l.Soft), Max: uint64(l.Hard)}
}

// open returns a pidfd of exactly this process.
func (k *LinuxKernel) open(p Process) (int, error) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return -1, fmt.Errorf("pidfd of process %d: %w", p.PID, goneIf(err, notLeader...))
	}
	if err := k.same(p, fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// same returns ErrGone if the process that the pidfd was opened of is another one, or
// has been reaped since.
func (k *LinuxKernel) same(p Process, pidfd int) error {
	err := k.is(p)
	if err != nil && !errors.Is(err, ErrGone) {
		err = errors.Join(err, stillThere(pidfd))
	}
	return err
}

// is returns ErrGone if the pid is another process's now, or nobody's.
func (k *LinuxKernel) is(p Process) error {
	start, err := k.startTime(p.PID)
	if err == nil && start != p.StartTime {
		return fmt.Errorf("process %d is another one: %w", p.PID, ErrGone)
	}
	return err
}

func (k *LinuxKernel) startTime(pid int) (uint64, error) {
	stat, err := k.readProc(pid, "stat")
	if err != nil {
		return 0, err
	}
	return parseStartTime(stat)
}

// readProc reads a file of a process.
func (k *LinuxKernel) readProc(pid int, name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(k.proc, strconv.Itoa(pid), name))
	return string(data), procError(pid, err)
}

// procError adds ErrGone to an error about a file of a process, if the process has
// ended. Reading from one that is being reaped gives ESRCH. ENOENT is no proof: procfs
// may hide processes (hidepid), so the kernel is asked whether it has that one.
func procError(pid int, err error) error {
	if !errors.Is(err, unix.ENOENT) {
		return goneIf(err, unix.ESRCH)
	}
	fd, asked := unix.PidfdOpen(pid, 0)
	if asked == nil {
		asked = unix.PidfdSendSignal(fd, 0, nil, 0)
		unix.Close(fd)
	}
	if errors.Is(goneIf(asked, notLeader...), ErrGone) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return fmt.Errorf("process %d is there, and not in procfs: %w", pid, err)
}

// notLeader is how pidfd_open(2) says that no process has the number. With EINVAL it is
// that of a thread, or of a process group that its leader's children are left of. Since
// Linux 6.16 that of a thread is ENOENT, and the other ESRCH.
var notLeader = []unix.Errno{unix.ESRCH, unix.EINVAL, unix.ENOENT}

// goneIf adds ErrGone to an error that is one of those.
func goneIf(err error, errnos ...unix.Errno) error {
	for _, errno := range errnos {
		if errors.Is(err, errno) {
			return fmt.Errorf("%w: %w", ErrGone, err)
		}
	}
	return err
}
