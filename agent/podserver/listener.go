package podserver

import (
	"context"
	"net"
	"sync"

	"golang.org/x/time/rate"
)

const (
	// maxConnections is how many a pod may have at once, streams included. The others
	// wait in the kernel's queue, which is the pod's own.
	maxConnections = 8

	// acceptRate is how many a second are accepted, and how many more at first.
	acceptRate  = 200
	acceptBurst = 2 * maxConnections
)

// bounded accepts connections at a bounded rate, and so many at once.
type limitedListener struct {
	net.Listener
	ctx    context.Context // done when the listener is closed
	cancel context.CancelFunc
	rate   *rate.Limiter
	slots  chan struct{} // has an element for each connection that there may be yet
}

func limitListener(l net.Listener) *limitedListener {
	b := &limitedListener{Listener: l, rate: rate.NewLimiter(acceptRate, acceptBurst), slots: make(chan struct{}, maxConnections)}
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

// connection makes room for another when it is closed.
type connection struct {
	net.Conn
	release func()
}

// Close implements [net.Conn].
func (c *connection) Close() error {
	defer c.release()
	return c.Conn.Close()
}
