package admin

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// ErrSlow is what [Subscription.Next] returns to a reader that fell too far
// behind.
var ErrSlow = errors.New("events came faster than they were read")

// Ring keeps the latest events and passes new ones on to subscribers. All
// methods may be called concurrently.
type Ring struct {
	backlog int
	buffer  int

	mu          sync.Mutex
	events      []agentapi.Event // the latest, oldest first
	subscribers map[*Subscription]struct{}
}

// NewRing returns a ring that keeps backlog events, and lets each subscriber
// fall behind by buffer events before it is cut off.
func NewRing(backlog, buffer int) *Ring {
	return &Ring{backlog: backlog, buffer: buffer, subscribers: map[*Subscription]struct{}{}}
}

// Record adds event. It never blocks on a subscriber.
func (r *Ring) Record(event agentapi.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
	if surplus := len(r.events) - r.backlog; surplus > 0 {
		r.events = r.events[surplus:]
	}
	for s := range r.subscribers {
		select {
		case s.live <- event:
		default:
			delete(r.subscribers, s)
			close(s.live)
		}
	}
}

// Subscribe returns a subscription that begins with the events that the ring
// still has and goes on with new ones, with neither gap nor repetition. It must
// be closed.
func (r *Ring) Subscribe() *Subscription {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &Subscription{ring: r, backlog: slices.Clone(r.events), live: make(chan agentapi.Event, r.buffer)}
	r.subscribers[s] = struct{}{}
	return s
}

// Subscription is one reader of a [Ring]. It is for one goroutine.
type Subscription struct {
	ring    *Ring
	backlog []agentapi.Event
	live    chan agentapi.Event
}

// Next returns the next event; it blocks until there is one. The error is
// [ErrSlow], after the last event that was still buffered, or that of ctx.
func (s *Subscription) Next(ctx context.Context) (agentapi.Event, error) {
	if len(s.backlog) > 0 {
		event := s.backlog[0]
		s.backlog = s.backlog[1:]
		return event, nil
	}
	select {
	case <-ctx.Done():
		return agentapi.Event{}, ctx.Err()
	case event, ok := <-s.live:
		if !ok {
			return agentapi.Event{}, ErrSlow
		}
		return event, nil
	}
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.ring.mu.Lock()
	defer s.ring.mu.Unlock()
	delete(s.ring.subscribers, s)
}
