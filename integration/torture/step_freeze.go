package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// maxFreeze bounds the time of a freeze.
const maxFreeze = 3 * time.Second

// freezeLauncher freezes a launcher's cgroup. Its VMs in this cgroup freeze, too.
func freezeLauncher(ctx context.Context, w *world) (string, error) {
	return w.holdLauncher(ctx, func(i *instance) (resume func() error, err error) {
		file := filepath.Join(i.cgroup, "cgroup.freeze")
		return func() error { return writeFreeze(file, "0") }, writeFreeze(file, "1")
	})
}

// writeFreeze ignores a cgroup that has ended meanwhile.
func writeFreeze(file, value string) error {
	err := os.WriteFile(file, []byte(value), 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// stopEverything stops the agent, a launcher and its VMs with SIGSTOP, as a freeze of the node
// does.
func stopEverything(ctx context.Context, w *world) (string, error) {
	if w.bare {
		return "", errSkip
	}
	agent, err := mainProcess(ctx, agentUnit)
	if errors.Is(err, errNotRunning) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	object, err := w.holdLauncher(ctx, func(i *instance) (resume func() error, err error) {
		all := []process{agent, i.process.process}
		for _, vm := range w.runningVMs(i) {
			all = append(all, vm.process)
		}
		return func() error {
			defer agent.close()
			return signalAll(all, unix.SIGCONT)
		}, signalAll(all, unix.SIGSTOP)
	})
	if object == "" {
		agent.close()
	}
	return object, err
}

func signalAll(all []process, s unix.Signal) error {
	var errs []error
	for _, p := range all {
		errs = append(errs, p.signal(s))
	}
	return errors.Join(errs...)
}

// holdLauncher stops a random launcher, and resumes it in the background. Until then the launcher
// counts as busy, because it executes no command.
func (w *world) holdLauncher(
	ctx context.Context, stop func(*instance) (resume func() error, err error),
) (string, error) {
	l, err := w.randomLauncher(acceptAny)
	if l == nil || !l.busy.CompareAndSwap(false, true) {
		return "", err
	}
	d := time.Duration(w.rand.Int64N(int64(maxFreeze)))
	resume, err := stop(l.current)
	w.background.Go(func() {
		defer l.busy.Store(false)
		pause(ctx, d)
		if err := resume(); err != nil {
			w.logf("resuming launcher %d: %v", l.number, err)
		}
	})
	return fmt.Sprintf("launcher %d (%s) for %s", l.number, l.name, d), err
}
