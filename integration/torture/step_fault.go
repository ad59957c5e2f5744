package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const agentUnit = "mooring-agent.service"

// killsAgent kills the agent. systemd starts another one.
func killsAgent(ctx context.Context, w *world) (string, error) {
	if w.bare {
		return "", errNever
	}
	w.up.Store(false)
	return agentUnit, systemctl(ctx, "kill", "--signal=KILL", agentUnit)
}

// pausesAgent stops the agent with SIGSTOP for a while.
func pausesAgent(ctx context.Context, w *world) (string, error) {
	if w.bare {
		return "", errNever
	}
	p, err := mainProcess(ctx, agentUnit)
	if errors.Is(err, errNotRunning) {
		return "", nil // it was just killed
	}
	if err != nil {
		return "", err
	}
	d := time.Duration(w.rand.IntN(3000)) * time.Millisecond
	if err := p.signal(unix.SIGSTOP); err != nil {
		return "", err
	}
	w.background.Go(func() {
		defer p.close()
		pause(ctx, d)
		if err := p.signal(unix.SIGCONT); err != nil {
			w.say("resuming the agent: %v", err)
		}
	})
	return d.String(), nil
}

// stormForks exceeds the tracker's ring of 7,400 events, with exits included. stormPatience bounds
// the time of the storm.
const (
	stormForks    = 4400
	stormPatience = 30 * time.Second
)

// overflows causes more events than the ring can hold while the agent is stopped. It blocks for the
// whole storm, because any other activity would wake the agent.
func overflows(ctx context.Context, w *world) (string, error) {
	if w.bare {
		return "", errNever
	}
	p, err := mainProcess(ctx, agentUnit)
	if errors.Is(err, errNotRunning) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer p.close()
	before, err := forks()
	if err != nil {
		return "", err
	}
	if err := p.signal(unix.SIGSTOP); err != nil {
		return "", err
	}
	told, err := w.tellsAny(fmt.Sprintf(`for half in 1 2; do (for i in $(seq %d); do (:); done) & done`, stormForks/2))
	if told != "" && err == nil {
		if err = awaitForks(ctx, before+stormForks); err == nil {
			w.overflows++
		}
	}
	return told, errors.Join(err, p.signal(unix.SIGCONT))
}

// awaitForks waits until the node has created this many processes since its boot.
func awaitForks(ctx context.Context, want int) error {
	ctx, cancel := context.WithTimeout(ctx, stormPatience)
	defer cancel()
	for {
		now, err := forks()
		if err != nil || now >= want {
			return err
		}
		if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("waiting for process %d of the node, the last was %d: %w", want, now, ctx.Err())
		}
	}
}

// forks returns the number of processes and threads created since boot.
func forks() (int, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "processes "); ok {
			return strconv.Atoi(strings.TrimSpace(n))
		}
	}
	return 0, errors.New("/proc/stat counts no processes")
}

func restartsContainerd(ctx context.Context, w *world) (string, error) {
	w.background.Go(func() {
		if err := systemctl(ctx, "restart", "containerd.service"); err != nil {
			w.say("%v", err)
		}
	})
	return "containerd.service", nil
}

// killsUnit kills a service that systemd or a socket restarts. It has no object on a node without
// the unit.
func killsUnit(unit string) func(context.Context, *world) (string, error) {
	return func(ctx context.Context, _ *world) (string, error) {
		p, err := mainProcess(ctx, unit)
		if errors.Is(err, errNotRunning) {
			return "", errNever
		}
		if err != nil {
			return "", err
		}
		defer p.close()
		return unit, p.signal(unix.SIGKILL)
	}
}

var errNotRunning = errors.New("not running")

// mainProcess returns the main process of a unit.
func mainProcess(ctx context.Context, unit string) (process, error) {
	out, err := exec.CommandContext(ctx, "systemctl", "show", "--property=MainPID", "--value", unit).Output()
	if err != nil {
		return process{}, fmt.Errorf("asking systemd for %s: %w", unit, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return process{}, fmt.Errorf("asking systemd for %s: %w", unit, err)
	}
	if pid == 0 {
		return process{}, fmt.Errorf("%s: %w", unit, errNotRunning)
	}
	return hold(pid)
}

// parentOf returns a container's shim, given its first process.
func parentOf(pid int) (process, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return process{}, err
	}
	for line := range strings.Lines(string(b)) {
		if text, found := strings.CutPrefix(line, "PPid:"); found {
			parent, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				return process{}, err
			}
			return hold(parent)
		}
	}
	return process{}, fmt.Errorf("process %d has no parent", pid)
}
