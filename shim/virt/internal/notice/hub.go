// Package notice tells those who wait that a domain may have changed.
package notice

import (
	"context"
	"sync"
)

// Hub is whom to tell. The zero value is ready; all methods may be called from several
// goroutines at once.
type Hub struct {
	mu          sync.Mutex
	closed      bool
	subscribers map[chan struct{}]string // the domain's UUID
}

// Subscribe returns a channel that holds one notice, closed when ctx is done or the
// hub is closed.
func (h *Hub) Subscribe(ctx context.Context, uuid string) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := make(chan struct{}, 1)
	if h.closed {
		close(c)
		return c
	}
	if h.subscribers == nil {
		h.subscribers = map[chan struct{}]string{}
	}
	h.subscribers[c] = uuid
	context.AfterFunc(ctx, func() { h.unsubscribe(c) })
	return c
}

func (h *Hub) unsubscribe(c chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.subscribers[c]; ok {
		delete(h.subscribers, c)
		close(c)
	}
}

// Tell tells those of one domain. It never blocks: a notice that nobody has taken yet stands for all later ones.
func (h *Hub) Notify(uuid string) {
	h.send(func(subscribed string) bool { return subscribed == uuid })
}

// TellAll tells those of all domains.
func (h *Hub) NotifyAll() { h.send(func(string) bool { return true }) }

func (h *Hub) send(match func(uuid string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c, uuid := range h.subscribers {
		if !match(uuid) {
			continue
		}
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Close closes all channels, and those that are asked for later.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for c := range h.subscribers {
		delete(h.subscribers, c)
		close(c)
	}
}
