package plugin

import (
	"net"
	"sync"
)

// trunk is a connection that tells when it is closed, by either side: NRI's
// multiplexer, which reads from it all the time, closes it on every error.
type trunk struct {
	net.Conn
	once sync.Once
	err  error
	done chan struct{}
}

func newTrunk(conn net.Conn) *trunk {
	return &trunk{Conn: conn, done: make(chan struct{})}
}

// Close closes the connection. It may be called more than once.
func (t *trunk) Close() error {
	t.once.Do(func() {
		t.err = t.Conn.Close()
		close(t.done)
	})
	return t.err
}

// closed is closed with the connection.
func (t *trunk) closed() <-chan struct{} { return t.done }
