package plugin

import (
	"sync"
	"time"
)

// Phase is how far the connection to the runtime is.
type Phase string

// The phases of a connection, in their order.
const (
	Disconnected Phase = "Disconnected" // waiting for the next attempt
	Connecting   Phase = "Connecting"   // dialling or registering
	Configured   Phase = "Configured"   // registered; the runtime has yet to list its containers
	Synchronized Phase = "Synchronized" // requests are answered
)

// Status is the state of a connection at one moment.
type Status struct {
	Phase          Phase
	Since          time.Time // when Phase was entered
	RuntimeName    string    // as it introduced itself; kept while disconnected
	RuntimeVersion string
	Reconnects     int   // how many times a synchronised connection was replaced by another
	Err            error // why the last attempt failed, or the connection ended; nil while it stands
}

// status is a Status that several goroutines change and watch.
type status struct {
	mu      sync.Mutex
	now     Status
	changed chan struct{} // closed at the next change
	observe func(Status)  // called with the lock held, so in order
	ever    bool          // was synchronised before
}

func newStatus(observe func(Status)) *status {
	return &status{
		now:     Status{Phase: Disconnected, Since: time.Now()},
		changed: make(chan struct{}),
		observe: observe,
	}
}

func (s *status) get() (Status, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.changed
}

// enter moves to a phase and changes what else there is to change.
func (s *status) enter(phase Phase, change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.move(phase, change)
}

// enterOn is enter, unless the connection that it is about is over: what its end
// leads to is not to be overwritten.
func (s *status) enterOn(t *trunk, phase Phase, change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-t.closed():
	default:
		s.move(phase, change)
	}
}

// move needs the lock.
func (s *status) move(phase Phase, change func(*Status)) {
	if s.now.Phase != phase {
		s.now.Phase, s.now.Since = phase, time.Now()
		if phase == Synchronized && s.ever {
			s.now.Reconnects++
		}
		s.ever = s.ever || phase == Synchronized
	}
	change(&s.now)
	close(s.changed)
	s.changed = make(chan struct{})
	s.observe(s.now)
}
