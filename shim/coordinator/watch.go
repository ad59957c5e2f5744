package coordinator

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/shim/internal/asking"
	"github.com/mooring-vm/mooring/shim/virt"
)

// lookAnyway is how often is looked at a VM of which nothing is told: events can be lost.
const lookAnyway = 4 * period

// watcher looks at a VM and hears who asks for its end. It waits for nobody: libvirt may
// hang, and the pod's request is seen all the same.
type watcher struct {
	orders
	domain virt.Domain
	calls  sync.WaitGroup // those under way

	look    *asking.Call
	stale   bool // there is something new since the look that is under way
	changed <-chan struct{}
	files   *time.Ticker // for the pod's request
	looks   *time.Ticker

	gone bool // the VM has ended
}

// newWatcher looks for the first time. close is to be called when ctx ends.
func newWatcher(ctx context.Context, d virt.Domain, o orders) *watcher {
	w := &watcher{orders: o, domain: d, files: time.NewTicker(period), looks: time.NewTicker(lookAnyway)}
	w.look = asking.New(&w.calls, func(ctx context.Context) error { return running(ctx, d) })
	var err error
	if w.changed, err = d.Changed(ctx); err != nil {
		w.log.Debug("no events of the VM; it is looked at instead", "error", err)
	}
	w.readFile()
	w.lookAgain(ctx)
	return w
}

// close waits for a look that is under way.
func (w *watcher) close() {
	w.files.Stop()
	w.looks.Stop()
	w.leaveAgent()
	w.calls.Wait()
}

// watch waits until somebody asks for the end of the VM, or that has ended.
func (w *watcher) watch(ctx context.Context) (asked bool) {
	for !w.asked() && !w.gone && w.next(ctx, nil) {
	}
	return w.asked() && ctx.Err() == nil
}

// next waits for something new, and takes it. It returns false when ctx ends, or done
// is closed.
func (w *watcher) next(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-done:
		return false
	case <-w.files.C:
		w.readFile()
		w.judge(ctx)
	case stop, ok := <-w.stops:
		w.hear(stop, ok)
	case <-w.looks.C:
		w.lookAgain(ctx)
	case _, ok := <-w.changed:
		if !ok {
			w.changed = nil
		}
		w.lookAgain(ctx)
	case err := <-w.look.Answer():
		w.looked(ctx, err)
	}
	return ctx.Err() == nil
}

// lookAgain looks at what the VM is now.
func (w *watcher) lookAgain(ctx context.Context) {
	if w.silent.IsZero() {
		w.silent = time.Now()
	}
	w.stale = !w.look.Ask(ctx)
}

// looked takes the answer to a look. The agent can ask for as long as there are some.
func (w *watcher) looked(ctx context.Context, err error) {
	w.look.Taken()
	if !errors.Is(err, virt.ErrConnection) {
		w.silent = time.Time{}
	}
	w.gone = ended(err)
	w.judge(ctx)
	if w.stale {
		w.lookAgain(ctx)
	}
}
