package asking_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mooring-vm/mooring/shim/internal/asking"
)

// A hanging call prevents further calls until its result has been received.
func TestCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running sync.WaitGroup
		calls, answers := 0, make(chan error)
		call := asking.New(&running, func(ctx context.Context) error {
			calls++
			select {
			case err := <-answers:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		if !call.Ask(ctx) || call.Ask(ctx) {
			t.Error("want one call, and no other")
		}
		want := errors.New("no")
		answers <- want
		if err := <-call.Answer(); !errors.Is(err, want) || call.Ask(ctx) {
			t.Errorf("answer %v, and another call before it was taken", err)
		}
		call.Taken()
		if !call.Ask(ctx) {
			t.Error("want another call")
		}
		cancel()
		running.Wait()
		if err := <-call.Answer(); !errors.Is(err, context.Canceled) || calls != 2 {
			t.Errorf("answer %v after %d calls", err, calls)
		}
	})
}
