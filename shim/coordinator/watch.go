package coordinator

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/shim/internal/async"
	"github.com/mooring-vm/mooring/shim/virt"
)

// lookAnyway is how often is looked at a VM of which nothing is told: events can be lost.
const phaseInterval = 4 * pollInterval

// watcher looks at a VM and hears who asks for its end. It waits for nobody: libvirt may
// hang, and the pod's request is seen all the same.
type watcher struct {
	stopRequests
	domain virt.Domain
	calls  sync.WaitGroup // those under way

	phaseRead        *async.Call
	changedSinceRead bool // there is something new since the look that is under way
	changed          <-chan struct{}
	fileTicker       *time.Ticker // for the pod's request
	phaseTicker      *time.Ticker

	ended bool // the VM has ended
}

// newWatcher looks for the first time. close is to be called when ctx ends.
func newWatcher(ctx context.Context, d virt.Domain, o stopRequests) *watcher {
	w := &watcher{stopRequests: o, domain: d, fileTicker: time.NewTicker(pollInterval), phaseTicker: time.NewTicker(phaseInterval)}
	w.phaseRead = async.New(&w.calls, func(ctx context.Context) error { return checkRunning(ctx, d) })
	var err error
	if w.changed, err = d.Changed(ctx); err != nil {
		w.log.Debug("no events of the VM; it is looked at instead", "error", err)
	}
	w.readPodRequest()
	w.readPhase(ctx)
	return w
}

// close waits for a look that is under way.
func (w *watcher) close() {
	w.fileTicker.Stop()
	w.phaseTicker.Stop()
	w.unsubscribeAgent()
	w.calls.Wait()
}

// watch waits until somebody asks for the end of the VM, or that has ended.
func (w *watcher) awaitStopOrEnd(ctx context.Context) (asked bool) {
	for !w.requested() && !w.ended && w.handleNext(ctx, nil) {
	}
	return w.requested() && ctx.Err() == nil
}

// next waits for something new, and takes it. It returns false when ctx ends, or done
// is closed.
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

// lookAgain looks at what the VM is now.
func (w *watcher) readPhase(ctx context.Context) {
	if w.silentSince.IsZero() {
		w.silentSince = time.Now()
	}
	w.changedSinceRead = !w.phaseRead.Start(ctx)
}

// looked takes the answer to a look. The agent can ask for as long as there are some.
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
