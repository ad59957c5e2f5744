package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process identifies a process by its pid and start time. A later process with the same pid has
// another start time.
type Process struct {
	Pid int `json:"pid"`
	// Started is field 22 of /proc/PID/stat, in clock ticks since the machine booted.
	Started string `json:"started"`
}

// NewProcess returns the process that has the pid now.
func NewProcess(pid int) (Process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, err
	}
	// The fields follow the last parenthesis, because the program's name may contain spaces.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return Process{}, fmt.Errorf("reading the start time of process %d: %q", pid, stat)
	}
	return Process{Pid: pid, Started: fields[19]}, nil
}

// End sends SIGTERM, and SIGKILL if the process still runs after the grace period. It returns when
// the process has ended. A process that had ended before is no error.
func (p Process) End(ctx context.Context, grace time.Duration) error {
	fd, ok, err := p.open()
	if err != nil || !ok {
		return err
	}
	defer unix.Close(fd)
	waiting, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	for _, step := range []struct {
		signal unix.Signal
		ctx    context.Context
	}{{unix.SIGTERM, waiting}, {unix.SIGKILL, ctx}} {
		if err := unix.PidfdSendSignal(fd, step.signal, nil, 0); err != nil &&
			!errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("ending process %d: %w", p.Pid, err)
		}
		gone, err := awaitExit(step.ctx, fd)
		if gone || err != nil {
			return err
		}
	}
	return fmt.Errorf("ending process %d: %w", p.Pid, context.Cause(ctx))
}

// open returns a pidfd. ok is false for a process that has ended.
func (p Process) open() (fd int, ok bool, err error) {
	if p.Pid <= 0 {
		return 0, false, nil
	}
	fd, err = unix.PidfdOpen(p.Pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("opening process %d: %w", p.Pid, err)
	}
	// The pidfd holds the process, so compare the start time after opening it.
	if now, err := NewProcess(p.Pid); err != nil || now != p {
		_ = unix.Close(fd)
		return 0, false, nil //nolint:nilerr // it has ended
	}
	return fd, true, nil
}

func awaitExit(ctx context.Context, fd int) (bool, error) {
	for ctx.Err() == nil {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 100)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, fmt.Errorf("waiting for a process to end: %w", err)
		}
		if ready > 0 {
			return true, nil
		}
	}
	return false, nil
}
