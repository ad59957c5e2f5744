package admin

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// ErrSlow is the error of [Subscription.Next] for a reader that is too slow.
var ErrSlow = errors.New("events came faster than they were read")

// Ring keeps the latest events and passes new events to subscribers. It is safe for
// concurrent use.
type Ring struct {
	backlog int
	buffer  int

	mu          sync.Mutex
	events      []agentapi.Event // the latest, oldest first
	subscribers map[*Subscription]struct{}
}

// NewRing returns a ring that keeps backlog events. It cuts a subscriber off after the
// subscriber has fallen behind by more than buffer events.
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

// Subscribe returns a subscription. It yields the events in the ring, and then new events
// without gap or repetition. The caller must close it.
func (r *Ring) Subscribe() *Subscription {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &Subscription{ring: r, backlog: slices.Clone(r.events),
		live: make(chan agentapi.Event, r.buffer)}
	r.subscribers[s] = struct{}{}
	return s
}

// Subscription is one reader of a [Ring]. It is for one goroutine.
type Subscription struct {
	ring    *Ring
	backlog []agentapi.Event
	live    chan agentapi.Event
}

// Behind reports whether Next has another event from before the subscription.
func (s *Subscription) Behind() bool { return len(s.backlog) > 0 }

// Next blocks until the next event. The error is [ErrSlow], after the last buffered event, or the
// error of ctx.
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
