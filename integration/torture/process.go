package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process is a process with a pidfd. A signal never reaches another process, and the end is visible
// even if the kernel reuses the pid at once.
type process struct {
	pid   int
	start uint64 // field 22 of proc_pid_stat(5)
	pidfd int
}

func (p process) String() string { return fmt.Sprintf("%d (start %d)", p.pid, p.start) }

// openProcess opens the process with this pid.
func openProcess(pid int) (process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return process{}, fmt.Errorf("opening process %d: %w", pid, err)
	}
	start, err := startOf(pid)
	if err != nil {
		return process{}, errors.Join(err, unix.Close(fd))
	}
	return process{pid: pid, start: start, pidfd: fd}, nil
}

// startOf reads the start time of a process in clock ticks after boot.
func startOf(pid int) (uint64, error) {
	fields, err := statOf(pid)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(fields[22-3], 10, 64)
}

// statOf reads the fields of proc_pid_stat(5) from the third one on.
func statOf(pid int) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	text := string(b) // the second field is a name with arbitrary content
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return nil, fmt.Errorf("process %d: unexpected format of /proc/PID/stat: %q", pid, text)
	}
	return fields, nil
}

// isStopped reports whether the process lives, stopped by a signal.
func (p process) isStopped() (bool, error) {
	fields, err := statOf(p.pid)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && fields[0] == "T" && fields[22-3] == strconv.FormatUint(p.start, 10), err
}

// startTime returns the start time of the process, to ten milliseconds.
func (p process) startTime() (time.Time, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return time.Time{}, fmt.Errorf("reading the clock: %w", err)
	}
	const tick = 10 * time.Millisecond
	return time.Now().Add(time.Duration(p.start)*tick - time.Duration(now.Nano())), nil
}

func (p process) signal(s unix.Signal) error {
	err := unix.PidfdSendSignal(p.pidfd, s, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// close closes the descriptor.
func (p process) close() { _ = unix.Close(p.pidfd) }

// pollEnded reports for each process whether it has ended. A zombie has ended.
func pollEnded(all []process) ([]bool, error) {
	fds := make([]unix.PollFd, len(all))
	for n, p := range all {
		fds[n] = unix.PollFd{Fd: int32(p.pidfd), Events: unix.POLLIN}
	}
	for {
		_, err := unix.Poll(fds, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		gone := make([]bool, len(all))
		for n, fd := range fds {
			gone[n] = fd.Revents != 0
		}
		return gone, err
	}
}

// pidsBelow lists the processes of a cgroup and its descendants.
func pidsBelow(cgroup string) []int {
	var pids []int
	_ = filepath.WalkDir(cgroup, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // cgroups can vanish during the walk
		}
		b, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for _, text := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(text); err == nil {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// cgroupOf returns the directory of a process's cgroup.
func cgroupOf(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	_, path, _ := strings.Cut(strings.TrimSpace(string(b)), "::")
	return filepath.Join("/sys/fs/cgroup", path), nil
}

// moveTo moves a process into a cgroup and creates the cgroup if necessary.
func (p process) moveTo(cgroup string) error {
	if err := os.MkdirAll(cgroup, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte(strconv.Itoa(p.pid)), 0o644)
}

// allPids lists the processes of the node.
func allPids() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// runsEmulator reports whether a process executes a file with QEMU's name and was started with
// TAG=tag, or with any tag if tag is empty.
func runsEmulator(pid int, tag string) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	name := strings.TrimSuffix(filepath.Base(exe), " (deleted)")
	if err != nil || strings.TrimSuffix(name, renamedSuffix) != emulator {
		return false
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if tag != "" {
		tag += "\x00"
	}
	return err == nil && strings.Contains("\x00"+string(environ), "\x00TAG="+tag)
}
