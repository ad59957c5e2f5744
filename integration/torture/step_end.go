package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// endLauncher ends a random launcher. It runs now at once and later in the background. Until later
// returns, the launcher counts as busy, and renewEnded leaves it alone.
func (w *world) endLauncher(ctx context.Context, now func(*instance) error,
	later func(context.Context, *launcher, *instance) error,
) (string, error) {
	l, err := w.randomLauncher(acceptAny)
	if l == nil || !l.busy.CompareAndSwap(false, true) {
		return "", err
	}
	i := l.current
	w.expectEnd(i)
	if err := now(i); err != nil {
		l.busy.Store(false)
		return "", err
	}
	w.background.Go(func() {
		defer l.busy.Store(false)
		if err := later(ctx, l, i); err != nil && ctx.Err() == nil {
			w.logf("launcher %d: %v", l.number, err)
		}
	})
	return fmt.Sprintf("launcher %d (%s)", l.number, l.name), nil
}

func noAction(*instance) error { return nil }

func noBackground(context.Context, *launcher, *instance) error { return nil }

func killLauncher(ctx context.Context, w *world) (string, error) {
	return w.endLauncher(ctx,
		func(i *instance) error { return i.process.signal(unix.SIGKILL) }, noBackground)
}

func exitLauncher(ctx context.Context, w *world) (string, error) {
	return w.endLauncher(ctx,
		func(i *instance) error { return i.runShell("exit 1") }, noBackground)
}

func stopContainer(ctx context.Context, w *world) (string, error) {
	return w.endLauncher(ctx, noAction, func(ctx context.Context, _ *launcher, i *instance) error {
		return i.container.Stop(ctx, 1)
	})
}

func removeContainer(ctx context.Context, w *world) (string, error) {
	return w.endLauncher(ctx, noAction, func(ctx context.Context, _ *launcher, i *instance) error {
		return i.container.Remove(ctx)
	})
}

func removeAnyPod(ctx context.Context, w *world) (string, error) {
	return w.endLauncher(ctx, noAction, func(ctx context.Context, l *launcher, _ *instance) error {
		return w.removePod(ctx, l)
	})
}

// killShim kills a pod's shim. containerd then ends the pod's containers.
func killShim(ctx context.Context, w *world) (string, error) {
	return w.endLauncher(ctx, func(i *instance) error {
		shim, err := parentOf(i.process.pid)
		if err != nil {
			return err
		}
		defer shim.close()
		return shim.signal(unix.SIGKILL)
	}, func(ctx context.Context, l *launcher, _ *instance) error { return w.removePod(ctx, l) })
}

// removePod removes a launcher's pod, if it has one.
func (w *world) removePod(ctx context.Context, l *launcher) error {
	s := l.pod
	l.pod = nil
	if s == nil {
		return nil
	}
	return w.retryUnavailable(ctx, func() error { return s.RemoveByForce(ctx) })
}

// requestStop sends a stop request like a preStop hook. After the stop confirmation it ends the
// launcher.
func requestStop(ctx context.Context, w *world) (string, error) {
	if w.bare {
		return "", errSkip
	}
	l, err := w.randomLauncher(acceptAny)
	if l == nil || !l.busy.CompareAndSwap(false, true) {
		return "", err
	}
	i, file := l.current, "/run/mooring/pods/"+l.pod.UID+"/pod/stop"
	vms := w.expectVMsEnd(i)
	if err := i.runShell("touch /run/mooring/pod/stop"); err != nil {
		l.busy.Store(false)
		return "", err
	}
	w.background.Go(func() {
		defer l.busy.Store(false)
		if err := w.awaitStop(ctx, file); err != nil {
			w.logf("launcher %d: %v", l.number, err)
		} else {
			w.check.checkConfirmation(vms)
		}
		w.expectEnd(i)
		if err := i.container.Stop(ctx, 1); err != nil {
			w.logf("launcher %d: %v", l.number, err)
		}
	})
	return fmt.Sprintf("launcher %d (%s), %d VMs", l.number, l.name, len(vms)), nil
}

// awaitStop waits for the stop confirmation. A stop request sets the file's time to now. The agent
// confirms it by setting the time back to the epoch.
func (w *world) awaitStop(ctx context.Context, file string) error {
	requested := false
	for deadline := time.Now().Add(w.absolute); time.Now().Before(deadline); {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		pending := info.ModTime().Unix() != 0
		if requested && !pending {
			return nil
		}
		requested = requested || pending
		if ctx.Err() != nil {
			return ctx.Err()
		}
		pause(ctx, 20*time.Millisecond)
	}
	return fmt.Errorf("no stop request, or no stop confirmation, within %s", w.absolute)
}
