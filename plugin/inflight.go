package plugin

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"time"

	"github.com/containerd/ttrpc"
)

const (
	// drainTimeout is how long requests that came before the end may take to
	// be answered.
	drainTimeout = time.Second

	// lingerTimeout is what the runtime has to take an answer in: NRI's
	// multiplexer drops what it has not passed on when a connection ends.
	lingerTimeout = 100 * time.Millisecond
)

// inflight counts the requests of one connection that were not answered yet. A
// runtime whose request is cut off goes on as if there were no plugin.
type inflight struct {
	mu      sync.Mutex
	open    int
	seen    int           // over time
	drained chan struct{} // closed once none is open; nil when nobody waits
}

// options make a server count.
func (f *inflight) options() []ttrpc.ServerOpt {
	return []ttrpc.ServerOpt{ttrpc.WithUnaryServerInterceptor(f.intercept), ttrpc.WithServerHandshaker(f)}
}

func (f *inflight) intercept(ctx context.Context, u ttrpc.Unmarshaler, _ *ttrpc.UnaryServerInfo, method ttrpc.Method) (any, error) {
	f.add(1)
	return method(ctx, u) // answered once the connection has taken the answer
}

// Handshake implements [ttrpc.Handshaker]: it is where a server's connection can
// be wrapped.
func (f *inflight) Handshake(_ context.Context, conn net.Conn) (net.Conn, any, error) {
	return &answers{Conn: conn, inflight: f}, nil, nil
}

func (f *inflight) add(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open, f.seen = max(f.open+n, 0), f.seen+max(n, 0)
	if f.open == 0 && f.drained != nil {
		close(f.drained)
		f.drained = nil
	}
}

// drain waits until every request is answered and the answers have arrived, or
// the connection is over. It returns false when that took too long.
func (f *inflight) drain(over <-chan struct{}) bool {
	enough := time.After(drainTimeout)
	for last := -1; ; {
		none, seen := f.none()
		if seen == last {
			return true
		}
		last = seen
		select {
		case <-none:
		case <-over:
			return true
		case <-enough:
			return false
		}
		select {
		case <-time.After(lingerTimeout):
		case <-over:
			return true
		}
	}
}

// none returns a channel that is closed once every request is answered, and how
// many there were.
func (f *inflight) none() (<-chan struct{}, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.drained != nil {
		return f.drained, f.seen
	}
	c := make(chan struct{})
	if f.open == 0 {
		close(c)
	} else {
		f.drained = c
	}
	return c, f.seen
}

// frameHeader is the length of ttrpc's, which begins with that of the payload.
const frameHeader = 10

// answers is a server's connection: what it writes are answers, one frame each,
// which begins with a Write. The server writes from one goroutine.
type answers struct {
	net.Conn
	inflight *inflight
	left     int // bytes of the present frame
}

// Write implements [net.Conn].
func (a *answers) Write(b []byte) (int, error) {
	if a.left == 0 && len(b) >= frameHeader {
		a.left = frameHeader + int(binary.BigEndian.Uint32(b))
	}
	n, err := a.Conn.Write(b)
	if a.left = max(a.left-n, 0); a.left == 0 {
		a.inflight.add(-1)
	}
	return n, err
}
