package plugin

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestInflightDrains(t *testing.T) {
	for name, test := range map[string]struct {
		handler time.Duration
		want    bool
	}{
		"fast handler": {drainTimeout / 2, true},
		"slow handler": {2 * drainTimeout, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &inflight{}
				go func() {
					_, _ = f.intercept(t.Context(), nil, nil,
						func(context.Context, func(any) error) (any, error) {
							time.Sleep(test.handler)
							return nil, nil
						})
				}()
				synctest.Wait()
				start := time.Now()
				if got := f.drain(nil); got != test.want {
					t.Errorf("drained %t, want %t", got, test.want)
				}
				if waited := time.Since(start); test.want && waited < test.handler+answerTimeout {
					t.Errorf("waited %s, too short for the answer", waited)
				}
				time.Sleep(test.handler)
			})
		})
	}
}

// A request that starts while the answer of another one is under way is waited for, too.
func TestInflightDrainWaitsForLateRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &inflight{}
		go func() {
			time.Sleep(answerTimeout / 2)
			f.started()
			time.Sleep(answerTimeout)
			f.ended()
		}()
		if !f.drain(nil) {
			t.Error("not drained")
		}
		if f.running != 0 {
			t.Error("a handler still runs")
		}
	})
}

func TestInflightDrainEndsWithTheConnection(t *testing.T) {
	f := &inflight{}
	f.started()
	closed := make(chan struct{})
	close(closed)
	if !f.drain(closed) {
		t.Error("not drained")
	}
}
