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

// Ring keeps the latest events, in equal parts for pods with many, and passes new events to
// subscribers. It is safe for concurrent use.
type Ring struct {
	backlog int
	buffer  int

	mu          sync.Mutex
	events      []agentapi.Event // the latest, oldest first
	counts      map[string]int   // of events, by pod UID
	subscribers map[*Subscription]struct{}
}

// NewRing returns a ring that keeps backlog events. It cuts a subscriber off after the
// subscriber has fallen behind by more than buffer events.
func NewRing(backlog, buffer int) *Ring {
	return &Ring{backlog: backlog, buffer: buffer, counts: map[string]int{},
		subscribers: map[*Subscription]struct{}{}}
}

// Record adds event. It never blocks on a subscriber.
func (r *Ring) Record(event agentapi.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
	r.counts[event.Pod.UID]++
	if len(r.events) > r.backlog {
		r.drop()
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

// drop removes the oldest event of a pod with the most events. So no pod pushes out the events of
// others. The caller holds mu.
func (r *Ring) drop() {
	most := 0
	for _, n := range r.counts {
		most = max(most, n)
	}
	at := slices.IndexFunc(r.events, func(e agentapi.Event) bool {
		return r.counts[e.Pod.UID] == most
	})
	uid := r.events[at].Pod.UID
	r.events = slices.Delete(r.events, at, at+1)
	if r.counts[uid]--; r.counts[uid] == 0 {
		delete(r.counts, uid)
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
