package coordinator

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/shim/internal/async"
	"github.com/mooring-vm/mooring/shim/virt"
)

// phaseInterval is the interval of polling a VM's phase, because events can be lost.
const phaseInterval = 4 * pollInterval

// watcher observes a VM and its stop requests. It never waits for libvirt: it notices the pod's
// request even while libvirt hangs.
type watcher struct {
	stopRequests
	domain virt.Domain
	calls  sync.WaitGroup // running calls

	phaseRead        *async.Call
	changedSinceRead bool // an event arrived during the running read
	changed          <-chan struct{}
	fileTicker       *time.Ticker // for the pod's stop request
	phaseTicker      *time.Ticker

	ended bool
}

// newWatcher subscribes to events and starts to read the phase. The caller must call close.
func newWatcher(ctx context.Context, d virt.Domain, o stopRequests) *watcher {
	w := &watcher{stopRequests: o, domain: d, fileTicker: time.NewTicker(pollInterval),
		phaseTicker: time.NewTicker(phaseInterval)}
	w.phaseRead = async.New(&w.calls, func(ctx context.Context) error {
		return checkRunning(ctx, d)
	})
	var err error
	if w.changed, err = d.Changed(ctx); err != nil {
		w.log.Debug("cannot subscribe to the VM's events; polling only", "error", err)
	}
	w.readPodRequest()
	w.readPhase(ctx)
	return w
}

// close releases the watcher and waits for a running read.
func (w *watcher) close() {
	w.fileTicker.Stop()
	w.phaseTicker.Stop()
	w.unsubscribeAgent()
	w.calls.Wait()
}

// awaitStopOrEnd waits for a stop request or the end of the VM. It returns false without a request,
// and when ctx ends.
func (w *watcher) awaitStopOrEnd(ctx context.Context) (requested bool) {
	for !w.requested() && !w.ended && w.handleNext(ctx, nil) {
	}
	return w.requested() && ctx.Err() == nil
}

// handleNext waits for one event and handles it. It returns false when ctx ends or done is closed.
func (w *watcher) handleNext(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-done:
		return false
	case <-w.fileTicker.C:
		w.readPodRequest()
		w.updateSubscription(ctx)
	case stop, ok := <-w.agentStops:
		w.onAgentStop(stop, ok)
	case <-w.phaseTicker.C:
		w.readPhase(ctx)
	case _, ok := <-w.changed:
		if !ok {
			w.changed = nil
		}
		w.readPhase(ctx)
	case err := <-w.phaseRead.Result():
		w.handlePhase(ctx, err)
	}
	return ctx.Err() == nil
}

// readPhase starts to read the VM's phase, or remembers to read it after the running read.
func (w *watcher) readPhase(ctx context.Context) {
	if w.silentSince.IsZero() {
		w.silentSince = time.Now()
	}
	w.changedSinceRead = !w.phaseRead.Start(ctx)
}

// handlePhase handles the result of a read.
func (w *watcher) handlePhase(ctx context.Context, err error) {
	w.phaseRead.Reset()
	if !errors.Is(err, virt.ErrConnection) {
		w.silentSince = time.Time{}
	}
	w.ended = isEnded(err)
	w.updateSubscription(ctx)
	if w.changedSinceRead {
		w.readPhase(ctx)
	}
}
