package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// LinuxKernel is the running kernel, through prlimit(2), procfs and cgroupfs. Reading limits of
// other users' processes needs CAP_SYS_PTRACE or CAP_SYS_RESOURCE, raising a hard limit
// CAP_SYS_RESOURCE. Pids are from the pid namespace of the procfs mount, which must be the agent's
// own.
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
		err = checkNotReaped(fd)
	}
	return limit, err
}

// MemlockOf reads RLIMIT_MEMLOCK of the process with a pid, of which the caller knows that it
// lives.
func (k *LinuxKernel) MemlockOf(pid int) (Rlimit, error) { return prlimit(pid, nil) }

// SetMemlock implements [Kernel].
func (k *LinuxKernel) SetMemlock(p Process, limit Rlimit) error {
	fd, err := k.open(p)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return setMemlock(p.PID, limit, func() error { return checkNotReaped(fd) })
}

// Locked implements [Kernel].
func (k *LinuxKernel) Locked(p Process) (uint64, error) {
	status, err := k.readProc(p.PID, "status")
	if err == nil {
		err = k.verify(p)
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

// setMemlock calls prlimit(2), which takes a pid. The pid may have been reused since the check.
// same checks again afterwards, and if it fails, the other process gets its limit back.
func setMemlock(pid int, limit Rlimit, same func() error) error {
	old, err := prlimit(pid, &limit)
	if err != nil {
		return err
	}
	if err := same(); err != nil {
		return errors.Join(err, restoreLimit(pid, limit, old))
	}
	return nil
}

// restoreLimit restores the old limit, unless the current limit differs from set: then the pid was
// reused once more, by a process that setMemlock did not change.
func restoreLimit(pid int, set, old Rlimit) error {
	now, err := prlimit(pid, nil)
	if err == nil && now == set && old != set {
		_, err = prlimit(pid, &old)
	}
	if errors.Is(err, ErrGone) {
		return nil
	}
	return err
}

// checkNotReaped returns ErrGone after the process has been reaped. Before that its pid cannot be
// reused.
func checkNotReaped(pidfd int) error {
	if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("the process has been reaped: %w", ErrGone)
	}
	return nil
}

// prlimit returns the current limit of the process with this pid, and sets a new one unless set is
// nil.
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

// open returns a pidfd of this process, verified by its start time.
func (k *LinuxKernel) open(p Process) (int, error) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return -1, fmt.Errorf("pidfd of process %d: %w", p.PID, goneIf(err, notLeader...))
	}
	if err := k.verifyPidfd(p, fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// verifyPidfd returns ErrGone if the pidfd belongs to another process, or its process has been
// reaped.
func (k *LinuxKernel) verifyPidfd(p Process, pidfd int) error {
	err := k.verify(p)
	if err != nil && !errors.Is(err, ErrGone) {
		err = errors.Join(err, checkNotReaped(pidfd))
	}
	return err
}

// verify returns ErrGone if the pid belongs to another process or to none.
func (k *LinuxKernel) verify(p Process) error {
	start, err := k.startTime(p.PID)
	if err == nil && start != p.Ticks() {
		return fmt.Errorf("pid %d belongs to another process: %w", p.PID, ErrGone)
	}
	return err
}

// startTime returns the start time of a process in clock ticks after boot.
func (k *LinuxKernel) startTime(pid int) (uint64, error) {
	stat, err := k.readProc(pid, "stat")
	if err != nil {
		return 0, err
	}
	return parseStartTime(stat)
}

// readProc reads a file in /proc/<pid>.
func (k *LinuxKernel) readProc(pid int, name string) (string, error) {
	data, err := os.ReadFile(filepath.Join(k.proc, strconv.Itoa(pid), name))
	return string(data), procError(pid, err)
}

// procError adds ErrGone to an error about a procfs file if the process has ended. Reading from a
// process in reaping returns ESRCH. ENOENT is no proof, because procfs may hide processes
// (hidepid), so procError asks the kernel about the pid.
func procError(pid int, err error) error {
	if !errors.Is(err, unix.ENOENT) {
		return goneIf(err, unix.ESRCH)
	}
	fd, pidfdErr := unix.PidfdOpen(pid, 0)
	if pidfdErr == nil {
		pidfdErr = unix.PidfdSendSignal(fd, 0, nil, 0)
		unix.Close(fd)
	}
	if errors.Is(goneIf(pidfdErr, notLeader...), ErrGone) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return fmt.Errorf("process %d exists but is missing from procfs: %w", pid, err)
}

// notLeader lists the errors of pidfd_open(2) for a number without a process. EINVAL means a
// thread, or a process group without its leader. Since Linux 6.16 a thread is ENOENT, and such a
// group ESRCH.
var notLeader = []unix.Errno{unix.ESRCH, unix.EINVAL, unix.ENOENT}

// goneIf adds ErrGone to one of these errors.
func goneIf(err error, errnos ...unix.Errno) error {
	for _, errno := range errnos {
		if errors.Is(err, errno) {
			return fmt.Errorf("%w: %w", ErrGone, err)
		}
	}
	return err
}
