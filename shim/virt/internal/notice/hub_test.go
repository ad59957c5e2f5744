package notice

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Hub
		ctx, cancel := context.WithCancel(t.Context())
		one, other := h.Subscribe(ctx, "1"), h.Subscribe(t.Context(), "2")
		all := h.Subscribe(t.Context(), "")
		h.Notify("1")
		h.Notify("1") // the first notice is still in the channel
		if <-one; len(one) != 0 || len(other) != 0 {
			t.Errorf("%d and %d notices are left, want none", len(one), len(other))
		}
		if len(all) != 1 {
			t.Errorf("%d notices about any domain, want 1", len(all))
		}
		h.NotifyAll()
		if len(one) != 1 || len(other) != 1 {
			t.Errorf("%d and %d notices for all, want 1 each", len(one), len(other))
		}
		cancel()
		synctest.Wait()
		h.Notify("1")
		<-one // the notice sent before
		if _, open := <-one; open {
			t.Error("the channel is open after its context")
		}
		h.Close()
		<-other
		for name, c := range map[string]<-chan struct{}{
			"old": other,
			"new": h.Subscribe(t.Context(), "1"),
		} {
			if _, open := <-c; open {
				t.Errorf("%s channel is open after Close", name)
			}
		}
	})
}
