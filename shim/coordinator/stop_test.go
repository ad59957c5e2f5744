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

// stopSender sends an agent's stop requests.
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

// sendStop sends a stop request to present and future handlers.
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

// handlerCount returns the number of subscribed stop handlers.
func (s *stopSender) handlerCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.handlers)
}

// podStop is the stop request of the pod. It implements AwaitStopRequest of a configuration.
type podStop struct {
	mu        sync.Mutex
	requested bool
	waiting   []chan struct{}
}

func (p *podStop) Store(requested bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requested = requested
	for _, c := range p.waiting {
		close(c)
	}
	p.waiting = nil
}

func (p *podStop) await(ctx context.Context) error {
	for {
		changed := make(chan struct{})
		p.mu.Lock()
		requested := p.requested
		p.waiting = append(p.waiting, changed)
		p.mu.Unlock()
		if requested {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func stopWithin(seconds int64) podapi.Stop {
	return podapi.Stop{Requested: true, Reason: "the launcher is gone", Seconds: seconds}
}

// shutdownRequests returns how often the shim has asked the guest to shut down.
func (r *rig) shutdownRequests() int {
	return len(slices.DeleteFunc(r.Calls(), func(call string) bool {
		return call != "ask the guest to shut down by acpi"
	}))
}

// remainingTime returns how long the VM keeps running, in whole seconds and at most for an hour.
func (r *rig) remainingTime(t *testing.T) time.Duration {
	t.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if s := r.state(t); s.Phase == virt.ShutOff || time.Since(began) > time.Hour {
			return time.Since(began).Truncate(time.Second)
		}
	}
}

// A stop request of the agent shuts the guest down like one of the pod. The shim then serves the
// next VM.
func TestAgentStop(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		if r.agent.handlerCount() != 1 {
			t.Fatal("no stop handler")
		}
		r.agent.sendStop(stopWithin(30))
		if remaining := r.remainingTime(t); remaining != 0 {
			t.Errorf("the VM runs for %s more", remaining)
		}
		r.agent.sendStop(podapi.Stop{})
		time.Sleep(time.Second)
		if r.agent.handlerCount() != 0 {
			t.Error("a stop handler remains after the end of the VM")
		}
		r.Set(func(s *virt.State) { s.Phase = virt.Running })
		time.Sleep(time.Minute)
		if s := r.state(t); s.Phase != virt.Running || r.agent.handlerCount() != 1 {
			t.Errorf("the next VM: %+v", s)
		}
	})
}

// The shorter deadline applies, and the shim asks the guest once for both requests.
func TestStopDeadlines(t *testing.T) {
	withGrace := func(d time.Duration) func(*coordinator.Config) {
		return func(c *coordinator.Config) { c.Shutdown = shutdown.Options{Grace: d} }
	}
	for name, tt := range map[string]struct {
		config    func(*coordinator.Config)
		request   func(r *rig)
		remaining time.Duration
		requests  int // one each 5 s
	}{
		"the agent's": {withGrace(time.Minute), func(r *rig) {
			r.agent.sendStop(stopWithin(12))
		}, 12 * time.Second, 3},
		"the pod's": {withGrace(7 * time.Second), func(r *rig) {
			r.agent.sendStop(stopWithin(60))
		}, 7 * time.Second, 2},
		"no time left": {withGrace(time.Minute), func(r *rig) {
			r.agent.sendStop(stopWithin(0))
		}, 0, 1},
		"both, the agent's is shorter": {withGrace(time.Minute), func(r *rig) {
			r.podStop.Store(true)
			r.agent.sendStop(stopWithin(12))
		}, 12 * time.Second, 3},
		"both, one after the other": {withGrace(time.Minute), func(r *rig) {
			r.podStop.Store(true)
			time.AfterFunc(7*time.Second, func() { r.agent.sendStop(stopWithin(6)) })
		}, 13 * time.Second, 3},
		"the agent's, shorter after an outage": {withGrace(time.Minute), func(r *rig) {
			r.agent.sendStop(stopWithin(30))
			time.AfterFunc(7*time.Second, func() { r.agent.sendStop(stopWithin(5)) })
		}, 12 * time.Second, 3},
		"the agent's, withdrawn": {withGrace(20 * time.Second), func(r *rig) {
			r.podStop.Store(true)
			r.agent.sendStop(stopWithin(30))
			time.AfterFunc(7*time.Second, func() { r.agent.sendStop(podapi.Stop{}) })
		}, 20 * time.Second, 4},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, tt.config, func(t *testing.T, r *rig) {
				r.SetGuest(virttest.Guest{IgnoreShutdown: true})
				tt.request(r)
				remaining := r.remainingTime(t)
				if remaining != tt.remaining || r.shutdownRequests() != tt.requests {
					t.Errorf("the VM runs for %s more, with %d shutdown requests (%v), want %s "+
						"and %d",
						remaining, r.shutdownRequests(), r.Calls(), tt.remaining, tt.requests)
				}
			})
		})
	}
}

// After the agent has withdrawn its request, the VM keeps running, and a new request works.
func TestAgentStopWithdrawn(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{IgnoreShutdown: true})
		r.agent.sendStop(stopWithin(20))
		time.Sleep(3 * time.Second)
		r.agent.sendStop(podapi.Stop{})
		time.Sleep(time.Hour)
		if s := r.state(t); s.Phase != virt.Running || r.shutdownRequests() != 1 ||
			r.agent.handlerCount() != 1 {
			t.Fatalf("state %+v, %d shutdown requests", s, r.shutdownRequests())
		}
		r.agent.sendStop(stopWithin(9))
		if remaining := r.remainingTime(t); remaining != 9*time.Second {
			t.Errorf("the VM runs for %s more", remaining)
		}
	})
}

// A shim that cannot reach libvirt ceases to be a stop handler, so that the agent need not wait.
func TestStopWithoutLibvirt(t *testing.T) {
	for name, requested := range map[string]bool{"without a request": false,
		"during a request": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, r *rig) {
				r.SetGuest(virttest.Guest{IgnoreShutdown: true})
				if requested {
					r.agent.sendStop(stopWithin(1000))
				}
				r.hypervisor.Disconnect()
				time.Sleep(4 * time.Second)
				if r.agent.handlerCount() != 1 {
					t.Error("no stop handler after only 4 s without libvirt")
				}
				time.Sleep(4 * time.Second)
				if r.agent.handlerCount() != 0 {
					t.Error("still a stop handler after 8 s without libvirt")
				}
				r.agent.sendStop(podapi.Stop{}) // the agent has continued without the shim
				r.hypervisor.Reconnect()
				time.Sleep(time.Minute)
				synctest.Wait()
				if r.agent.handlerCount() != 1 {
					t.Error("no stop handler although libvirt is back")
				}
			})
		})
	}
}
