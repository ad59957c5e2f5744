package coordinator

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/shim/internal/async"
	"github.com/mooring-vm/mooring/shim/virt"
)

// watcher observes a VM and its stop requests. It never waits for libvirt: it notices the pod's
// request even while libvirt hangs.
type watcher struct {
	stopRequests
	domain virt.Domain
	lives  chan virt.Life // receives each observation, which replaces an unread one
	calls  sync.WaitGroup // running calls

	lifeRead         *async.Call
	life             virt.Life // result of lifeRead
	changedSinceRead bool      // a further read was requested during the running one
	changed          <-chan struct{}
	nextRead         *time.Timer
	podStop          <-chan struct{} // closed at the pod's request; nil afterwards

	// Numbers of reads, from 1.
	started  int // the latest read
	answered int // the latest read with an answer
	required int // the first read after the pod's request

	ended     bool
	migrating bool // as last observed
}

// newWatcher subscribes to events. The first handleNext starts the first read of the VM's life. The
// caller must end ctx and call close.
func newWatcher(
	ctx context.Context, d virt.Domain, lives chan virt.Life, o stopRequests,
	awaitPodStop func(context.Context) error,
) *watcher {
	w := &watcher{stopRequests: o, domain: d, lives: lives, nextRead: time.NewTimer(0)}
	w.lifeRead = async.New(&w.calls, func(ctx context.Context) (err error) {
		w.life, err = d.Life(ctx)
		return err
	})
	var err error
	if w.changed, err = d.Changed(ctx); err != nil {
		w.log.Debug("cannot subscribe to the VM's events; polling only", "error", err)
	}
	podStop := make(chan struct{})
	w.podStop = podStop
	w.calls.Go(func() {
		if awaitPodStop(ctx) == nil {
			close(podStop)
		}
	})
	return w
}

// close releases the watcher and waits for its calls. The caller must have ended ctx.
func (w *watcher) close() {
	w.nextRead.Stop()
	w.unsubscribeAgent()
	w.calls.Wait()
}

// awaitStopOrEnd waits for a stop request or the end of the VM. It returns false without a request,
// and when ctx ends.
//
// A migration holds back the pod's request until it ends. The agent's request comes after the lease
// of the migration.
func (w *watcher) awaitStopOrEnd(ctx context.Context) (requested bool) {
	due := func() bool { return w.byAgent.Requested || w.byPod && w.mayStop() }
	for !due() && !w.ended && w.handleNext(ctx, nil) {
	}
	return due() && ctx.Err() == nil
}

// mayStop reports whether the pod's request may shut the guest down now. A migration may have begun
// without an event, so libvirt must first show that there is none.
func (w *watcher) mayStop() bool {
	return !w.migrating && (w.isUpToDate() || time.Since(w.byPodSince) >= w.maxWait())
}

// isUpToDate reports whether libvirt has answered a read that began after the pod's request.
func (w *watcher) isUpToDate() bool { return w.answered >= w.required }

// maxWait bounds the wait for libvirt. The guest has the rest of its grace period.
func (w *watcher) maxWait() time.Duration { return min(w.grace/2, maxAnswerWait) }

// handleNext waits for one event and handles it. It returns false when ctx ends or done is closed.
func (w *watcher) handleNext(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-done:
		return false
	case <-w.podStop:
		w.onPodStop()
		w.readLife(ctx)
	case stop, ok := <-w.agentStops:
		w.onAgentStop(stop, ok)
	case <-w.nextRead.C:
		w.readLife(ctx)
	case _, ok := <-w.changed:
		if !ok {
			w.changed = nil
		}
		w.readLife(ctx)
	case err := <-w.lifeRead.Result():
		w.handleLife(ctx, err)
	}
	return ctx.Err() == nil
}

// onPodStop stores the pod's request. From now on the VM does not grow.
func (w *watcher) onPodStop() {
	w.byPod, w.byPodSince, w.podStop = true, time.Now(), nil
	w.required = w.started + 1
	close(w.stopping)
}

// readLife starts to read the VM's life, or remembers to read it after the running read.
func (w *watcher) readLife(ctx context.Context) {
	if w.silentSince.IsZero() {
		w.silentSince = time.Now()
	}
	if w.changedSinceRead = !w.lifeRead.Start(ctx); !w.changedSinceRead {
		w.started++
	}
	w.nextRead.Reset(retryInterval)
	w.updateSubscription(ctx)
}

// handleLife handles the result of a read.
func (w *watcher) handleLife(ctx context.Context, err error) {
	w.lifeRead.Reset()
	if w.away = errors.Is(err, virt.ErrConnection); !w.away {
		w.silentSince = time.Time{}
	}
	w.ended = isEnded(err) || err == nil && w.life.Phase.Ended()
	if err == nil {
		w.migrating, w.answered = w.life.Migrating, w.started
		replace(w.lives, w.life)
	}
	if err == nil && !w.migrating {
		w.nextRead.Reset(idleInterval)
	}
	w.updateSubscription(ctx)
	if w.changedSinceRead {
		w.readLife(ctx)
	}
}

// replace sends v to a channel with space for one element, in place of an unread element.
func replace[T any](c chan T, v T) {
	select {
	case <-c:
	default:
	}
	c <- v
}
