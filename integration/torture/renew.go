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

// renewTimeout bounds the renewal of one launcher, including a restart of containerd.
const renewTimeout = 90 * time.Second

// renewEnded starts new instances for launchers that ended, several at a time, until the context
// ends.
func (w *world) renewEnded(ctx context.Context) {
	workers := make(chan struct{}, w.workers)
	for ctx.Err() == nil {
		for _, l := range w.launchers {
			if !w.isVacant(l) || !l.busy.CompareAndSwap(false, true) {
				continue
			}
			workers <- struct{}{}
			w.background.Go(func() {
				defer func() { l.busy.Store(false); <-workers }()
				if err := w.renew(ctx, l); err != nil && ctx.Err() == nil {
					w.logf("renewing launcher %d: %v", l.number, err)
				}
			})
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// isVacant reports whether a launcher needs a new instance: it has none, or its process has ended.
func (w *world) isVacant(l *launcher) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !l.busy.Load() && (l.current == nil || w.check.isGone(l.current.process))
}

// awaitAllReady waits until all launchers accept commands.
func (w *world) awaitAllReady(ctx context.Context) {
	for len(w.readyLaunchers()) < len(w.launchers) && ctx.Err() == nil {
		pause(ctx, 100*time.Millisecond)
	}
}

// renew starts a new instance of a launcher in its existing pod. After a failure it removes the
// pod, so that the next attempt uses a new one.
func (w *world) renew(ctx context.Context, l *launcher) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	began, started := time.Now(), "a container"
	if l.pod == nil {
		started = "a pod with its container"
	}
	err := w.removeInstance(ctx, l)
	if err == nil {
		err = w.startInstance(ctx, l)
	}
	if err != nil {
		return errors.Join(err, w.removePod(context.WithoutCancel(ctx), l), w.awaitRuntime(ctx))
	}
	w.mu.Lock()
	w.renewTimes.add(fmt.Sprintf("%s, %s", started, l.handler), time.Since(began))
	w.mu.Unlock()
	w.startDomainInBackground(l, l.current)
	return nil
}

// removeInstance removes the container of a launcher's ended instance. It waits for the end of its
// domain first.
func (w *world) removeInstance(ctx context.Context, l *launcher) error {
	i := l.current
	if i == nil {
		return nil
	}
	if err := w.awaitDomainEnd(ctx, i); err != nil {
		return err
	}
	w.mu.Lock()
	l.current = nil
	w.mu.Unlock()
	_ = i.ctl.Close()
	if l.pod == nil {
		return nil
	}
	return i.container.Remove(ctx)
}

// awaitDomainEnd waits until an old instance's domain has ended, because the next domain has the
// same name.
func (w *world) awaitDomainEnd(ctx context.Context, i *instance) error {
	for !w.domainEnded(&i.domain) {
		if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("waiting for the end of the domain: %w", ctx.Err())
		}
	}
	return nil
}

// awaitRuntime waits until containerd answers.
func (w *world) awaitRuntime(ctx context.Context) error {
	return w.retryUnavailable(ctx, func() error {
		_, err := w.cri.Version(ctx, &runtimeapi.VersionRequest{})
		return err
	})
}

// retryUnavailable retries while containerd does not answer.
func (w *world) retryUnavailable(ctx context.Context, do func() error) error {
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
