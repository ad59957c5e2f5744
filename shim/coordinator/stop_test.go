package coordinator_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/coordinator"
	"github.com/mooring-vm/mooring/shim/shutdown"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// stopping is how an agent asks for the end of a VM.
type stopSender struct {
	mu       sync.Mutex
	current  podapi.Stop
	handlers map[chan podapi.Stop]bool
}

// Stops implements [coordinator.Agent].
func (s *stopSender) Stops(ctx context.Context) <-chan podapi.Stop {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan podapi.Stop, 1)
	c <- s.current
	if s.handlers == nil {
		s.handlers = map[chan podapi.Stop]bool{}
	}
	s.handlers[c] = true
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.handlers, c)
		close(c)
	})
	return c
}

// asks has the agent ask from now on.
func (s *stopSender) sendStop(stop podapi.Stop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = stop
	for c := range s.handlers {
		select {
		case <-c:
		default:
		}
		c <- stop
	}
}

// asked is how many the agent can ask.
func (s *stopSender) handlerCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.handlers)
}

func stopWithin(seconds int64) podapi.Stop {
	return podapi.Stop{Requested: true, Reason: "the launcher is gone", Seconds: seconds}
}

// requests is how often the guest was asked to shut down.
func (r *rig) shutdownRequests() int {
	return len(slices.DeleteFunc(r.Calls(), func(call string) bool { return call != "ask the guest to shut down by acpi" }))
}

// lasts is how long the VM lasts yet, but for parts of a second.
func (r *rig) remainingTime(t *testing.T) time.Duration {
	t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if s := r.state(t); s.Phase == virt.ShutOff || time.Since(began) > time.Hour {
			return time.Since(began).Truncate(time.Second)
		}
	}
}

// TestAgentAsks: the guest is asked as if the pod's own file asked for it, and the next
// VM is looked after again.
func TestAgentStop(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		if r.agent.handlerCount() != 1 {
			t.Fatal("the agent cannot ask")
		}
		r.agent.sendStop(stopWithin(30))
		if lasts := r.remainingTime(t); lasts != 0 {
			t.Errorf("the VM lasts for %s", lasts)
		}
		r.agent.sendStop(podapi.Stop{})
		time.Sleep(time.Second)
		if r.agent.handlerCount() != 0 {
			t.Error("the agent is told that somebody takes requests for a VM that has ended")
		}
		r.Set(func(s *virt.State) { s.Phase = virt.Running })
		time.Sleep(time.Minute)
		if s := r.state(t); s.Phase != virt.Running || r.agent.handlerCount() != 1 {
			t.Errorf("the next VM: %+v", s)
		}
	})
}

// TestStopBounds: whoever has less time for it counts, and the guest is asked once for
// both.
func TestStopDeadlines(t *testing.T) {
	graces := func(d time.Duration) func(*coordinator.Config) {
		return func(c *coordinator.Config) { c.Shutdown = shutdown.Options{Grace: d} }
	}
	for name, tt := range map[string]struct {
		config func(*coordinator.Config)
		ask    func(r *rig)
		lasts  time.Duration
		asked  int // each 5 s
	}{
		"the agent's":              {graces(time.Minute), func(r *rig) { r.agent.sendStop(stopWithin(12)) }, 12 * time.Second, 3},
		"the pod's":                {graces(7 * time.Second), func(r *rig) { r.agent.sendStop(stopWithin(60)) }, 7 * time.Second, 2},
		"no time is left":          {graces(time.Minute), func(r *rig) { r.agent.sendStop(stopWithin(0)) }, 0, 1},
		"both, the agent's sooner": {graces(time.Minute), func(r *rig) { r.podStop.Store(true); r.agent.sendStop(stopWithin(12)) }, 12 * time.Second, 3},
		"both, one after the other": {graces(time.Minute), func(r *rig) {
			r.podStop.Store(true)
			time.AfterFunc(7*time.Second, func() { r.agent.sendStop(stopWithin(6)) })
		}, 13 * time.Second, 3},
		"the agent's, told again after it was away": {graces(time.Minute), func(r *rig) {
			r.agent.sendStop(stopWithin(30))
			time.AfterFunc(7*time.Second, func() { r.agent.sendStop(stopWithin(5)) })
		}, 12 * time.Second, 3},
		"the agent's, which does not ask any more": {graces(20 * time.Second), func(r *rig) {
			r.podStop.Store(true)
			r.agent.sendStop(stopWithin(30))
			time.AfterFunc(7*time.Second, func() { r.agent.sendStop(podapi.Stop{}) })
		}, 20 * time.Second, 4},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, tt.config, func(t *testing.T, r *rig) {
				r.SetGuest(virttest.Guest{IgnoreShutdown: true})
				tt.ask(r)
				if lasts := r.remainingTime(t); lasts != tt.lasts || r.shutdownRequests() != tt.asked {
					t.Errorf("the VM lasts for %s and was asked %d times (%v), want %s and %d", lasts, r.shutdownRequests(), r.Calls(), tt.lasts, tt.asked)
				}
			})
		})
	}
}

// TestAgentAsksNoMore: it has another way by then, or the VM is another's.
func TestAgentStopWithdrawn(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{IgnoreShutdown: true})
		r.agent.sendStop(stopWithin(20))
		time.Sleep(3 * time.Second)
		r.agent.sendStop(podapi.Stop{})
		time.Sleep(time.Hour)
		if s := r.state(t); s.Phase != virt.Running || r.shutdownRequests() != 1 || r.agent.handlerCount() != 1 {
			t.Fatalf("state %+v, the guest was asked %d times", s, r.shutdownRequests())
		}
		r.agent.sendStop(stopWithin(9))
		if lasts := r.remainingTime(t); lasts != 9*time.Second {
			t.Errorf("the VM lasts for %s", lasts)
		}
	})
}

// TestOutOfReach: who cannot reach libvirt does not keep the agent waiting.
func TestStopWithoutLibvirt(t *testing.T) {
	for name, asks := range map[string]bool{"before": false, "while it asks": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, r *rig) {
				r.SetGuest(virttest.Guest{IgnoreShutdown: true})
				if asks {
					r.agent.sendStop(stopWithin(1000))
				}
				r.hypervisor.Disconnect()
				time.Sleep(4 * time.Second)
				if r.agent.handlerCount() != 1 {
					t.Error("a moment without libvirt is too long")
				}
				time.Sleep(4 * time.Second)
				if r.agent.handlerCount() != 0 {
					t.Error("the agent is kept waiting")
				}
				r.agent.sendStop(podapi.Stop{}) // it has gone on by itself
				r.hypervisor.Reconnect()
				time.Sleep(time.Minute)
				synctest.Wait()
				if r.agent.handlerCount() != 1 {
					t.Error("the agent cannot ask although libvirt is back")
				}
			})
		})
	}
}
