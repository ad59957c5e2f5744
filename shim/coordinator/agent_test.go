package coordinator_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/resize"
)

// agent is one that lets the VM be as large as it likes.
type agent struct {
	mu      sync.Mutex
	away    bool
	wanted  podapi.Wanted
	reports []podapi.Report
	changes map[chan struct{}]bool
}

func (a *agent) answer() error {
	if a.away {
		return resize.ErrAgent
	}
	return nil
}

func (a *agent) Wanted(context.Context) (podapi.Wanted, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wanted, a.answer()
}

func (a *agent) Report(_ context.Context, r podapi.Report) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := errors.Join(a.answer(), r.Check()); err != nil {
		return err
	}
	a.reports = append(a.reports, r)
	return nil
}

func (a *agent) Seen(context.Context) (resize.Seen, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	limit := uint64(a.wanted.Limits.Memory)
	return resize.Seen{PodMax: limit, ContainerMax: limit, Lock: resize.NoLimit, Room: resize.NoLimit}, a.answer()
}

func (a *agent) RaiseLock(context.Context, uint64) error   { return nil }
func (a *agent) LowerLock(context.Context, uint64) error   { return nil }
func (a *agent) Need(context.Context, uint64) error        { return nil }
func (a *agent) Hold(context.Context, time.Duration) error { return nil }

func (a *agent) Changed(ctx context.Context) (<-chan struct{}, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := make(chan struct{}, 1)
	if a.changes == nil {
		a.changes = map[chan struct{}]bool{}
	}
	a.changes[c] = true
	context.AfterFunc(ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.changes, c)
		close(c)
	})
	return c, nil
}

// want changes what is wanted, tells who listens, and returns the generation.
func (a *agent) want(change func(*podapi.Wanted)) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.wanted)
	a.wanted.Generation++
	for c := range a.changes {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	return a.wanted.Generation
}

// last is the report that is to be told last.
func (a *agent) last(t *testing.T, state podapi.State) podapi.Report {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.reports) == 0 || a.reports[len(a.reports)-1].State != state {
		t.Fatalf("reports %+v, want the last to be %s", a.reports, state)
	}
	return a.reports[len(a.reports)-1]
}

// told is all that was reported.
func (a *agent) told() []podapi.Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.reports)
}

func (a *agent) generation() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wanted.Generation
}
