package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ends starts the end of a launcher. The slow part runs in the background, and the launcher is
// renewed after it.
func (w *world) ends(ctx context.Context, now func(*instance) error, later func(context.Context, *launcher, *instance) error) (string, error) {
	l, err := w.anyLauncher(anyOne)
	if l == nil || !l.busy.CompareAndSwap(false, true) {
		return "", err
	}
	i := l.current
	w.askAll(i)
	if err := now(i); err != nil {
		l.busy.Store(false)
		return "", err
	}
	w.background.Go(func() {
		defer l.busy.Store(false)
		if err := later(ctx, l, i); err != nil && ctx.Err() == nil {
			w.say("launcher %d: %v", l.number, err)
		}
	})
	return fmt.Sprintf("launcher %d (%s)", l.number, l.name), nil
}

func nothingNow(*instance) error { return nil }

func nothingLater(context.Context, *launcher, *instance) error { return nil }

func killsOwner(ctx context.Context, w *world) (string, error) {
	return w.ends(ctx, func(i *instance) error { return i.owner.signal(unix.SIGKILL) }, nothingLater)
}

func leaves(ctx context.Context, w *world) (string, error) {
	return w.ends(ctx, func(i *instance) error { return i.tell("exit 1") }, nothingLater)
}

func stopsContainer(ctx context.Context, w *world) (string, error) {
	return w.ends(ctx, nothingNow, func(ctx context.Context, _ *launcher, i *instance) error { return i.container.Stop(ctx, 1) })
}

func removesContainer(ctx context.Context, w *world) (string, error) {
	return w.ends(ctx, nothingNow, func(ctx context.Context, _ *launcher, i *instance) error { return i.container.Remove(ctx) })
}

func removesPod(ctx context.Context, w *world) (string, error) {
	return w.ends(ctx, nothingNow, func(ctx context.Context, l *launcher, _ *instance) error { return w.drop(ctx, l) })
}

// killsShim: containerd ends the pod's containers when it notices the end of the shim.
func killsShim(ctx context.Context, w *world) (string, error) {
	return w.ends(ctx, func(i *instance) error {
		shim, err := parentOf(i.owner.pid)
		if err != nil {
			return err
		}
		defer shim.close()
		return shim.signal(unix.SIGKILL)
	}, func(ctx context.Context, l *launcher, _ *instance) error { return w.drop(ctx, l) })
}

// drop removes a launcher's pod.
func (w *world) drop(ctx context.Context, l *launcher) error {
	s := l.sandbox
	l.sandbox = nil
	if s == nil {
		return nil
	}
	return w.insist(ctx, func() error { return s.RemoveByForce(ctx) })
}

// asksForStop acts like the hook, and then ends the launcher.
func asksForStop(ctx context.Context, w *world) (string, error) {
	if w.bare {
		return "", errNever
	}
	l, err := w.anyLauncher(anyOne)
	if l == nil || !l.busy.CompareAndSwap(false, true) {
		return "", err
	}
	i, file := l.current, "/run/mooring/pods/"+l.sandbox.UID+"/pod/stop"
	vms := w.liveVMs(i)
	w.check.ask(vms...)
	if err := i.tell("touch /run/mooring/pod/stop"); err != nil {
		l.busy.Store(false)
		return "", err
	}
	w.background.Go(func() {
		defer l.busy.Store(false)
		if err := w.awaitStop(ctx, file); err != nil {
			w.say("launcher %d: %v", l.number, err)
		} else {
			w.check.confirm(vms)
		}
		w.askAll(i)
		if err := i.container.Stop(ctx, 1); err != nil {
			w.say("launcher %d: %v", l.number, err)
		}
	})
	return fmt.Sprintf("launcher %d (%s), %d VMs", l.number, l.name, len(vms)), nil
}

// awaitStop waits until a request was seen and confirmed: the file's time is the epoch again.
func (w *world) awaitStop(ctx context.Context, file string) error {
	for begun, deadline := false, time.Now().Add(w.absolute); time.Now().Before(deadline); pause(ctx, 20*time.Millisecond) {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		asked := info.ModTime().Unix() != 0
		if begun && !asked {
			return nil
		}
		begun = begun || asked
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("a request to stop was not seen, or not answered, within %s", w.absolute)
}
