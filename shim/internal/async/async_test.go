package async_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mooring-vm/mooring/shim/internal/async"
)

// A hanging call prevents further calls until its result has been received.
func TestCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running sync.WaitGroup
		calls, answers := 0, make(chan error)
		call := async.New(&running, func(ctx context.Context) error {
			calls++
			select {
			case err := <-answers:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		if !call.Start(ctx) || call.Start(ctx) {
			t.Error("want one call, and no other")
		}
		want := errors.New("no")
		answers <- want
		if err := <-call.Result(); !errors.Is(err, want) || call.Start(ctx) {
			t.Errorf("answer %v, and another call before it was taken", err)
		}
		call.Reset()
		if !call.Start(ctx) {
			t.Error("want another call")
		}
		cancel()
		running.Wait()
		if err := <-call.Result(); !errors.Is(err, context.Canceled) || calls != 2 {
			t.Errorf("answer %v after %d calls", err, calls)
		}
	})
}
