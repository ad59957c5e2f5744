//go:build cgo && libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/internal/notice"
)

// connection holds the current link to libvirt, and opens a new one after a loss.
type connection struct {
	uri        string
	options    Options
	hub        notice.Hub
	agentCalls singleflight.Group // queries to guest agents, by UUID
	stop       context.CancelFunc
	closed     chan struct{} // closed when maintain has returned

	mu   sync.Mutex
	link *link // nil while libvirt is away
}

// Open connects to the libvirt of a URI. Examples: qemu:///session, or
// qemu+unix:///system?socket=PATH for a daemon at another socket. While no libvirt answers, Open
// retries until ctx ends. The error then is [virt.ErrConnection] and ctx's error. Other errors,
// such as a malformed URI, are returned at once. ctx limits Open only. [virt.Connection.Close] ends
// the connection.
func Open(ctx context.Context, uri string, o Options) (virt.Connection, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("connect to libvirt at %q: %w", uri, err)
	}
	o = o.withDefaults()
	c := &connection{
		uri:     uri,
		options: o,
		closed:  make(chan struct{}),
	}
	first, err := c.connect(ctx, func(err error) bool { return errors.Is(err, virt.ErrConnection) })
	if err != nil {
		return nil, err
	}
	c.link = first
	maintainCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	go c.maintain(maintainCtx, first)
	return c, nil
}

// maintain replaces each lost link until ctx ends.
func (c *connection) maintain(ctx context.Context, l *link) {
	defer close(c.closed)
	always := func(error) bool { return true }
	for {
		select {
		case <-ctx.Done():
			c.setLink(nil)
			go l.close() // a hanging call keeps the link open
			return
		case <-l.lost:
		}
		c.options.Log.Warn("lost the connection to libvirt", "uri", c.uri)
		c.setLink(nil)
		c.hub.NotifyAll()
		go l.close()
		next, err := c.connect(ctx, always)
		if err != nil {
			return
		}
		c.options.Log.Info("reconnected to libvirt", "uri", c.uri)
		c.setLink(next)
		c.hub.NotifyAll()
		l = next
	}
}

func (c *connection) setLink(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link = l
}

// connect retries until it succeeds, ctx ends, or an error is not retryable.
func (c *connection) connect(ctx context.Context, retryable func(error) bool) (*link, error) {
	backoff := wait.Backoff{
		Duration: c.options.MinBackoff,
		Factor:   2,
		Jitter:   0.5,
		Steps:    64,
		Cap:      c.options.MaxBackoff,
	}
	for {
		l, err := c.connectOnce(ctx)
		if err == nil {
			return l, nil
		}
		err = fmt.Errorf("connect to libvirt at %q: %w", c.uri, err)
		if ctx.Err() != nil || !retryable(err) {
			return nil, err
		}
		c.options.Log.Debug("no connection to libvirt", "uri", c.uri, "error", err)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, ctx.Err())
		case <-time.After(backoff.Step()):
		}
	}
}

// connectOnce makes one attempt. It abandons a hanging attempt when ctx ends.
func (c *connection) connectOnce(ctx context.Context) (*link, error) {
	type result struct {
		l   *link
		err error
	}
	done := make(chan result, 1)
	go func() {
		l, err := connect(c.uri, c.options, c.onEvent)
		done <- result{l, err}
	}()
	select {
	case r := <-done:
		return r.l, r.err
	case <-ctx.Done():
		go func() {
			if r := <-done; r.err == nil {
				r.l.close()
			}
		}()
		return nil, fmt.Errorf("%w: %w", virt.ErrConnection, ctx.Err())
	}
}

// onEvent handles each libvirt event.
func (c *connection) onEvent(uuid, event string) {
	c.options.Log.Debug("libvirt event", "uuid", uuid, "event", event)
	c.hub.Notify(uuid)
}

// Changed receives after each event of libvirt and after each change made through this connection.
func (c *connection) Changed(ctx context.Context) <-chan struct{} { return c.hub.Subscribe(ctx, "") }

// Close ends the connection and does not wait for running calls.
func (c *connection) Close() error {
	c.stop()
	<-c.closed
	c.hub.Close()
	return nil
}
