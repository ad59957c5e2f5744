// Package notice notifies subscribers that a domain may have changed.
package notice

import (
	"context"
	"sync"
)

// Hub delivers notices to subscribers. The zero value is ready to use. All methods are safe for
// concurrent use.
type Hub struct {
	mu          sync.Mutex
	closed      bool
	subscribers map[chan struct{}]string // channel to the domain's UUID; "": all domains
}

// Subscribe returns a channel that buffers one notice about a domain, or about any domain if uuid
// is empty. The channel is closed when ctx ends or the hub is closed.
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

// Notify notifies the subscribers of one domain. It never blocks: a notice still in the channel
// stands for all later ones.
func (h *Hub) Notify(uuid string) {
	h.send(func(subscribed string) bool { return subscribed == uuid || subscribed == "" })
}

// NotifyAll notifies the subscribers of all domains.
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

// Close closes all channels. Later subscribers get a closed channel.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for c := range h.subscribers {
		delete(h.subscribers, c)
		close(c)
	}
}
