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

// killAgent kills the agent. systemd restarts it.
func killAgent(ctx context.Context, w *world) (string, error) {
	if w.bare {
		return "", errSkip
	}
	w.agentUp.Store(false)
	return agentUnit, systemctl(ctx, "kill", "--signal=KILL", agentUnit)
}

// pauseAgent stops the agent with SIGSTOP for up to three seconds.
func pauseAgent(ctx context.Context, w *world) (string, error) {
	if w.bare {
		return "", errSkip
	}
	p, err := mainProcess(ctx, agentUnit)
	if errors.Is(err, errNotRunning) {
		return "", nil // an earlier step has killed it
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
			w.logf("resuming the agent: %v", err)
		}
	})
	return d.String(), nil
}

// stormForks overflows the tracker's ring of 7,400 events, because each fork also causes an exit
// event. stormTimeout bounds the duration of the storm.
const (
	stormForks   = 4400
	stormTimeout = time.Minute
)

// pauseAgentInStorm stops the agent and causes more events than the ring can hold. It blocks for
// the whole storm, because any other activity would wake the agent.
func pauseAgentInStorm(ctx context.Context, w *world) (string, error) {
	if w.bare {
		return "", errSkip
	}
	p, err := mainProcess(ctx, agentUnit)
	if errors.Is(err, errNotRunning) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer p.close()
	l, err := w.randomLauncher(acceptAny)
	if l == nil {
		return "", err
	}
	if err := p.signal(unix.SIGSTOP); err != nil {
		return "", err
	}
	overflow, err := l.overflowRing(ctx, p)
	if overflow {
		w.overflows++
	}
	return fmt.Sprintf("launcher %d, overflow: %t", l.number, overflow),
		errors.Join(err, p.signal(unix.SIGCONT))
}

// overflowRing makes the launcher process cause a storm. It reports whether the whole storm met the
// stopped agent: an earlier step may end the launcher, or resume or kill the agent.
func (l *launcher) overflowRing(ctx context.Context, agent process) (bool, error) {
	const end = "/storm-end" // in the container
	path := fmt.Sprintf("/proc/%d/root%s", l.current.process.pid, end)
	if err := os.RemoveAll(path); err != nil {
		return false, err
	}
	err := l.current.runShell(fmt.Sprintf(
		`(for half in 1 2; do (for i in $(seq %d); do (:); done) & done; wait; : >%s) &`,
		stormForks/2, end))
	for began := time.Now(); err == nil && time.Since(began) < stormTimeout; pause(ctx, tick) {
		if _, err := os.Stat(path); err == nil {
			return agent.isStopped()
		}
	}
	return false, err
}

func restartContainerd(ctx context.Context, w *world) (string, error) {
	w.background.Go(func() {
		if err := systemctl(ctx, "restart", "containerd.service"); err != nil {
			w.logf("%v", err)
		}
	})
	return "containerd.service", nil
}

// killUnit returns a step that kills a service. systemd or a socket restarts the service. On a node
// without a running service the run skips the step.
func killUnit(unit string) func(context.Context, *world) (string, error) {
	return func(ctx context.Context, _ *world) (string, error) {
		p, err := mainProcess(ctx, unit)
		if errors.Is(err, errNotRunning) {
			return "", errSkip
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
	cmd := exec.CommandContext(ctx, "systemctl", "show", "--property=MainPID", "--value", unit)
	out, err := cmd.Output()
	if err != nil {
		return process{}, fmt.Errorf("reading the main process of %s from systemd: %w", unit, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return process{}, fmt.Errorf("reading the main process of %s from systemd: %w", unit, err)
	}
	if pid == 0 {
		return process{}, fmt.Errorf("%s: %w", unit, errNotRunning)
	}
	return openProcess(pid)
}

// parentOf returns the parent of a container's first process: the container's shim.
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
			return openProcess(parent)
		}
	}
	return process{}, fmt.Errorf("process %d has no parent", pid)
}
