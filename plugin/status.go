package plugin

import (
	"sync"
	"time"
)

// Phase is the state of the connection to the runtime.
type Phase string

// The phases of a connection, in order.
const (
	Disconnected Phase = "Disconnected" // until the next attempt
	Connecting   Phase = "Connecting"   // dialling or registering
	Configured   Phase = "Configured"   // registered, before the runtime's list of containers
	Synchronized Phase = "Synchronized" // answering requests
)

// Status is the state of a connection at one moment.
type Status struct {
	Phase          Phase
	Since          time.Time // the start of Phase
	RuntimeName    string    // from the runtime; kept while disconnected
	RuntimeVersion string
	RuntimePID     int   // process that listens on the socket; 0: unknown
	Reconnects     int   // number of replaced synchronised connections
	Err            error // of the last attempt, or the connection's end; nil while connected
}

// status is a Status for several goroutines.
type status struct {
	mu              sync.Mutex
	now             Status
	changed         chan struct{} // closed at the next change
	observe         func(Status)  // called under the lock, so in order
	wasSynchronized bool          // the plugin was synchronised before
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

// enter changes the phase and other fields.
func (s *status) enter(phase Phase, change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.move(phase, change)
}

// enterOn is enter for a connection that is still open. It does not overwrite the status after the
// connection's end.
func (s *status) enterOn(conn *notifyConn, phase Phase, change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-conn.closed():
	default:
		s.move(phase, change)
	}
}

// move needs mu.
func (s *status) move(phase Phase, change func(*Status)) {
	if s.now.Phase != phase {
		s.now.Phase, s.now.Since = phase, time.Now()
		if phase == Synchronized && s.wasSynchronized {
			s.now.Reconnects++
		}
		s.wasSynchronized = s.wasSynchronized || phase == Synchronized
	}
	change(&s.now)
	close(s.changed)
	s.changed = make(chan struct{})
	s.observe(s.now)
}
