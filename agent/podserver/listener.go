package podserver

import (
	"context"
	"net"
	"sync"

	"golang.org/x/time/rate"
)

const (
	// maxConnections bounds the connections of a pod, streams included. Further ones wait in the
	// kernel's queue of the pod's own socket.
	maxConnections = 8

	// acceptRate bounds the accepted connections per second. acceptBurst is the bucket's size.
	acceptRate  = 200
	acceptBurst = 2 * maxConnections
)

// limitedListener bounds the rate and the number of connections.
type limitedListener struct {
	net.Listener
	ctx    context.Context // done when the listener is closed
	cancel context.CancelFunc
	rate   *rate.Limiter
	slots  chan struct{} // has an element for each free connection
}

func limitListener(l net.Listener) *limitedListener {
	b := &limitedListener{Listener: l, rate: rate.NewLimiter(acceptRate, acceptBurst),
		slots: make(chan struct{}, maxConnections)}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	for range maxConnections {
		b.slots <- struct{}{}
	}
	return b
}

// Accept implements [net.Listener].
func (b *limitedListener) Accept() (net.Conn, error) {
	select {
	case <-b.slots:
	case <-b.ctx.Done():
		return nil, net.ErrClosed
	}
	if b.rate.Wait(b.ctx) != nil {
		return nil, net.ErrClosed
	}
	conn, err := b.Listener.Accept()
	if err != nil {
		b.slots <- struct{}{}
		return nil, err
	}
	return &connection{Conn: conn, release: sync.OnceFunc(func() { b.slots <- struct{}{} })}, nil
}

// Close implements [net.Listener].
func (b *limitedListener) Close() error {
	b.cancel()
	return b.Listener.Close()
}

// connection frees its slot when it is closed.
type connection struct {
	net.Conn
	release func()
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	defer c.release()
	return c.Conn.Close()
}
