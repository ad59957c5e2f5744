package supervisor_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// slowTracker counts rescans. Each rescan waits while hold is set.
type slowTracker struct {
	supervisor.Tracker
	rescans atomic.Int32
	hold    atomic.Pointer[chan struct{}]
}

func (s *slowTracker) Rescan() error {
	s.rescans.Add(1)
	if hold := s.hold.Load(); hold != nil {
		<-*hold
	}
	return s.Tracker.Rescan()
}

func inSlowBubble(t *testing.T, test func(r *rig, s *slowTracker)) {
	t.Helper()
	s := &slowTracker{}
	change := func(c *supervisor.Config) { s.Tracker, c.Tracker = c.Tracker, s }
	inBubble(t, change, func(r *rig) { test(r, s) })
}

// Lost events within two seconds cost one rescan, and later ones another.
func TestLostEventsShareARescan(t *testing.T) {
	inSlowBubble(t, func(r *rig, s *slowTracker) {
		for want := int32(1); want <= 2; want++ {
			for range 5 {
				r.EventsLost()
				r.advance(100 * time.Millisecond)
			}
			if n := s.rescans.Load(); n != want-1 {
				t.Errorf("%d rescans at once, want %d", n, want-1)
			}
			r.advance(3 * time.Second)
			if n := s.rescans.Load(); n != want {
				t.Errorf("%d rescans, want %d", n, want)
			}
		}
	})
}

// One rescan runs at a time. Requests in the meantime share the next one.
func TestRequestsInARescan(t *testing.T) {
	inSlowBubble(t, func(r *rig, s *slowTracker) {
		hold := make(chan struct{})
		s.hold.Store(&hold)
		for range 5 {
			r.EventsLost()
			r.advance(3 * time.Second)
		}
		if n := s.rescans.Load(); n != 1 {
			t.Errorf("%d rescans at a time, want 1", n)
		}
		s.hold.Store(nil)
		close(hold)
		synctest.Wait()
		if n := s.rescans.Load(); n != 2 {
			t.Errorf("%d rescans after five requests, want 2", n)
		}
	})
}

// A notification of the pod's directory may be lost with the others.
func TestLostEventsReadThePodDirectories(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.advance(time.Minute + time.Second) // the next read of all directories is far
		r.requestStopUnseen(l)
		r.EventsLost()
		r.advance(3 * time.Second)
		if r.stopRequested(l) {
			t.Error("the agent has not seen the stop request")
		}
	})
}

// brokenStore is unreadable.
type brokenStore struct{ supervisor.Store }

func (brokenStore) Load() ([]tie.Tie, error) { return nil, errors.New("input/output error") }

func TestRestoreFromABrokenStore(t *testing.T) {
	for name, change := range map[string]func(*supervisor.Config){
		"ties":   func(c *supervisor.Config) { c.Store = brokenStore{c.Store} },
		"former": func(c *supervisor.Config) { c.Former = brokenStore{c.Store} },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, change)
			if err := supervisor.New(r.config).Restore(); err == nil {
				t.Errorf("%s: no error", name)
			}
		})
	}
}

// The tracker was full, so the stored launcher has no group. An emulator of the node has none
// either.
func TestRestoredLauncherWithoutAGroup(t *testing.T) {
	full := &fullTracker{}
	change := func(c *supervisor.Config) { full.Tracker, c.Tracker = c.Tracker, full }
	inBubble(t, change, func(r *rig) {
		l := r.launch("vm", nil)
		r.stop()
		r.start()
		other := r.startQEMU("/system.slice/labeller.service")
		r.advance(time.Second)
		r.expectVMs(l)
		r.exit(l.process, "SIGKILL")
		r.advance(gracePeriod)
		r.expectSignals(other)
	})
}

// A restored launcher keeps the group, and thus processes in other cgroups.
func TestRestoredLauncherKeepsItsGroup(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		moved := r.inheritGroup(l, "/elsewhere")
		r.stop()
		r.start()
		r.ProcessEvent(r.tracker.Exec(moved, "qemu-kvm"))
		r.advance(time.Second)
		r.expectVMs(l, moved)
	})
}
