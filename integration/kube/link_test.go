package kubetest

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/mooring-vm/mooring/hack/kube"
)

// restart stops the API server, calls during, and starts it again.
func restart(t *testing.T, c *kube.ControlPlane, during func()) {
	t.Helper()
	if err := c.StopAPIServer(); err != nil {
		t.Error(err) // and start it for the following tests
	}
	during()
	if err := c.StartAPIServer(); err != nil {
		t.Fatal(err)
	}
}

// link is the network between an agent and the API server. It starts and ends an outage at once. A
// restart of the API server takes seconds.
type link struct {
	listener net.Listener
	target   string
	down     atomic.Bool
	refused  atomic.Int64

	mu   sync.Mutex
	open map[net.Conn]struct{}
}

// newLink puts a link in front of config's API server.
func newLink(t *testing.T, config *rest.Config) *link {
	t.Helper()
	server, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{listener: listener, target: server.Host, open: map[net.Conn]struct{}{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.serve()
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		l.cut()
		<-done
	})
	server.Host = listener.Addr().String()
	config.Host = server.String()
	return l
}

// cut ends every connection and refuses new ones.
func (l *link) cut() {
	l.down.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		_ = c.Close()
	}
}

func (l *link) mend() { l.down.Store(false) }

// awaitRefusal returns after one more attempt to connect.
func (l *link) awaitRefusal(t *testing.T) {
	t.Helper()
	before := l.refused.Load()
	eventually(t, "an attempt to connect", func() bool { return l.refused.Load() > before })
}

func (l *link) serve() {
	var forwarders sync.WaitGroup
	defer forwarders.Wait()
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		if l.down.Load() {
			_ = client.Close()
			l.refused.Add(1)
			continue
		}
		forwarders.Go(func() { l.forward(client) })
	}
}

func (l *link) forward(client net.Conn) {
	defer l.forget(client)
	server, err := net.Dial("tcp", l.target)
	if err != nil {
		return
	}
	defer l.forget(server)
	if !l.remember(client, server) {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
	_ = client.Close()
	<-done
}

// remember reports false for connections made before a cut.
func (l *link) remember(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		l.open[c] = struct{}{}
	}
	return !l.down.Load()
}

func (l *link) forget(c net.Conn) {
	_ = c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
}
