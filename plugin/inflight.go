package plugin

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/ttrpc"
)

const (
	// drainTimeout is the time for handlers to finish once the agent ends.
	drainTimeout = time.Second

	// answerTimeout is the time for the answer of a finished handler to reach the runtime. ttrpc
	// does not report when it has written an answer, and NRI's multiplexer drops unsent data when
	// the connection closes.
	answerTimeout = 200 * time.Millisecond
)

// inflight counts the requests of one connection whose handlers run. A runtime whose request is
// cut off goes on as if there were no plugin.
type inflight struct {
	mu       sync.Mutex
	running  int
	total    int           // of all requests so far
	finished chan struct{} // closed once no handler runs; nil without a waiter
}

// option makes a ttrpc server count its requests.
func (f *inflight) option() ttrpc.ServerOpt { return ttrpc.WithUnaryServerInterceptor(f.intercept) }

func (f *inflight) intercept(
	ctx context.Context, u ttrpc.Unmarshaler, _ *ttrpc.UnaryServerInfo, method ttrpc.Method,
) (any, error) {
	f.started()
	defer f.ended()
	return method(ctx, u)
}

func (f *inflight) started() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running++
	f.total++
}

func (f *inflight) ended() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running--
	if f.running == 0 && f.finished != nil {
		close(f.finished)
		f.finished = nil
	}
}

// drain waits until no handler runs, answers had time to arrive, and no request came meanwhile. It
// returns at once when the connection closes. It returns false if handlers take too long.
func (f *inflight) drain(closed <-chan struct{}) bool {
	timeout := time.After(drainTimeout)
	for last := -1; ; {
		finished, total := f.wait()
		if total == last {
			return true
		}
		last = total
		select {
		case <-finished:
		case <-closed:
			return true
		case <-timeout:
			return false
		}
		select {
		case <-time.After(answerTimeout):
		case <-closed:
			return true
		}
	}
}

// wait returns a channel that closes once no handler runs, and the number of requests so far.
func (f *inflight) wait() (finished <-chan struct{}, total int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.finished != nil {
		return f.finished, f.total
	}
	c := make(chan struct{})
	if f.running == 0 {
		close(c)
	} else {
		f.finished = c
	}
	return c, f.total
}
