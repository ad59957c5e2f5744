package plugin

import (
	"net"
	"sync"
)

// notifyConn is a connection with a channel that closes with it. NRI's multiplexer reads from the
// connection all the time and closes it on every error, so the channel also reports the end of the
// runtime. The stub's own callback does not: while Start waits, the stub holds the lock that its
// callback needs.
type notifyConn struct {
	net.Conn
	once sync.Once
	err  error
	done chan struct{}
}

func newNotifyConn(conn net.Conn) *notifyConn {
	return &notifyConn{Conn: conn, done: make(chan struct{})}
}

// Close closes the connection. It may be called more than once.
func (c *notifyConn) Close() error {
	c.once.Do(func() {
		c.err = c.Conn.Close()
		close(c.done)
	})
	return c.err
}

// closed returns a channel that closes with the connection.
func (c *notifyConn) closed() <-chan struct{} { return c.done }
