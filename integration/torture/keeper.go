package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// renewTimeout bounds the renewal of one launcher, which may include an absence of containerd.
const renewTimeout = 90 * time.Second

// keep renews launchers whose owners are gone, several at a time, until ctx is done.
func (w *world) keep(ctx context.Context) {
	room := make(chan struct{}, w.workers)
	for ctx.Err() == nil {
		for _, l := range w.launchers {
			if !w.isVacant(l) || !l.busy.CompareAndSwap(false, true) {
				continue
			}
			room <- struct{}{}
			w.background.Go(func() {
				defer func() { l.busy.Store(false); <-room }()
				if err := w.renew(ctx, l); err != nil && ctx.Err() == nil {
					w.say("making launcher %d anew: %v", l.number, err)
				}
			})
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// isVacant reports whether a launcher has no instance.
func (w *world) isVacant(l *launcher) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !l.busy.Load() && (l.current == nil || w.check.isGone(l.current.owner))
}

// awaitFull waits until all launchers run.
func (w *world) awaitFull(ctx context.Context) {
	for len(w.live()) < len(w.launchers) && ctx.Err() == nil {
		pause(ctx, 100*time.Millisecond)
	}
}

// renew starts a new instance of a launcher in its existing pod. After a failure the next attempt
// uses a new pod.
func (w *world) renew(ctx context.Context, l *launcher) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	began, what := time.Now(), "a container"
	if l.sandbox == nil {
		what = "a pod with its container"
	}
	err := w.close(ctx, l)
	if err == nil {
		err = w.open(ctx, l)
	}
	if err != nil {
		return errors.Join(err, w.drop(context.WithoutCancel(ctx), l), w.awaitRuntime(ctx))
	}
	w.mu.Lock()
	w.making.add(fmt.Sprintf("%s, %s", what, l.handler), time.Since(began))
	w.mu.Unlock()
	w.startsItsDomain(l, l.current)
	return nil
}

// close removes the remains of a launcher.
func (w *world) close(ctx context.Context, l *launcher) error {
	i := l.current
	if i == nil {
		return nil
	}
	if err := w.awaitGone(ctx, i); err != nil {
		return err
	}
	w.mu.Lock()
	l.current = nil
	w.mu.Unlock()
	_ = i.ctl.Close()
	if l.sandbox == nil {
		return nil
	}
	return i.container.Remove(ctx)
}

// awaitGone waits for the end of an old owner's domain, because the next one has the same name.
func (w *world) awaitGone(ctx context.Context, i *instance) error {
	for !w.isOver(&i.domain) {
		if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("waiting for the end of the domain: %w", ctx.Err())
		}
	}
	return nil
}

// awaitRuntime waits until containerd answers.
func (w *world) awaitRuntime(ctx context.Context) error {
	return w.insist(ctx, func() error {
		_, err := w.cri.Version(ctx, &runtimeapi.VersionRequest{})
		return err
	})
}

// insist retries while containerd is away.
func (w *world) insist(ctx context.Context, do func() error) error {
	for {
		err := do()
		var s interface{ GRPCStatus() *status.Status }
		if !errors.As(err, &s) || s.GRPCStatus().Code() != codes.Unavailable {
			return err
		}
		if pause(ctx, 500*time.Millisecond); ctx.Err() != nil {
			return err
		}
	}
}
