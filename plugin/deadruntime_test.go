package plugin_test

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/plugin"
)

// badRuntime is a runtime that only registers plugins.
type badRuntime struct {
	die        bool // close the connection once the registration was answered; else stay silent
	registered atomic.Int32
}

// mortal is a connection that closes after its next message, once armed.
type mortal struct {
	net.Conn
	armed atomic.Bool
}

const frameHeader = 8 // of NRI's multiplexer, which writes header and message apart

func (m *mortal) Write(b []byte) (int, error) {
	n, err := m.Conn.Write(b)
	if m.armed.Load() && len(b) != frameHeader {
		m.Close()
	}
	return n, err
}

// registration is NRI's runtime service on one connection.
type registration struct {
	*badRuntime
	conn *mortal
}

func (r registration) RegisterPlugin(
	context.Context, *nri.RegisterPluginRequest,
) (*nri.Empty, error) {
	r.registered.Add(1)
	r.conn.armed.Store(r.die)
	return &nri.Empty{}, nil
}

func (r registration) UpdateContainers(
	context.Context, *nri.UpdateContainersRequest,
) (*nri.UpdateContainersResponse, error) {
	return &nri.UpdateContainersResponse{}, nil
}

// serve answers registrations at socket until the listener closes.
func (b *badRuntime) serve(t *testing.T, socket string) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", socket)
	must(t, err)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go b.answer(&mortal{Conn: conn})
		}
	}()
	t.Cleanup(func() { l.Close() })
	return l
}

func (b *badRuntime) answer(conn *mortal) {
	mux := multiplex.Multiplex(conn)
	l, err := mux.Listen(multiplex.RuntimeServiceConn)
	if err != nil {
		return
	}
	server, err := ttrpc.NewServer()
	if err != nil {
		return
	}
	nri.RegisterRuntimeService(server, registration{b, conn})
	_ = server.Serve(context.Background(), l) // until the connection ends
}

// A stub hangs for ever if its runtime goes away between registration and configuration. The
// connection abandons it and makes another.
func TestRuntimeDiesBeforeConfigure(t *testing.T) {
	socket := filepath.Join(socketDir(t), "nri.sock")
	bad := &badRuntime{die: true}
	l := bad.serve(t, socket)
	n := newNode(t, policy.Enforce)
	c := connect(t, socket, "90", n, n.observer)
	poll(t, "abandoned stub", func() bool { return n.observer.stubsAbandoned() > 0 })
	if s := await(t, c, "disconnected", func(s plugin.Status) bool {
		return s.Err != nil
	}); !strings.Contains(s.Err.Error(), "before the plugin was configured") {
		t.Errorf("error = %v, want one that says when the connection was closed", s.Err)
	}
	l.Close()
	r := startRuntime(t, socket)
	await(t, c, "synchronised", synchronized)
	r.BlockPluginSync().Unblock()
	pod := newPod("u1", decidetest.VFIO())
	adjust, err := r.create(pod, newContainer(pod, "compute"))
	must(t, err)
	if len(adjust.GetRlimits()) != 1 {
		t.Errorf("rlimits = %v, want one", adjust.GetRlimits())
	}
}

func TestRuntimeNeverConfigures(t *testing.T) {
	socket := filepath.Join(socketDir(t), "nri.sock")
	bad := &badRuntime{}
	bad.serve(t, socket)
	n := newNode(t, policy.Enforce)
	c, err := plugin.NewConnection(plugin.ConnectionConfig{
		Socket: socket, Name: "mooring", Index: "90", Handlers: n,
		Logger:   slog.New(slog.DiscardHandler),
		Observer: n.observer, StartTimeout: 50 * time.Millisecond, MinBackoff: time.Millisecond,
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	poll(t, "second registration", func() bool { return bad.registered.Load() >= 2 })
	if s, _ := c.Status(); s.Phase == plugin.Synchronized || s.Phase == plugin.Configured {
		t.Errorf("phase = %s", s.Phase)
	}
	cancel()
	<-done
}

// attempts counts attempts to connect.
type attempts struct {
	plugin.NopObserver
	n int
}

func (a *attempts) Connection(s plugin.Status) {
	if s.Phase == plugin.Connecting {
		a.n++
	}
}

func TestPausesWhileThereIsNoRuntime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a attempts
		c, err := plugin.NewConnection(plugin.ConnectionConfig{
			Socket: filepath.Join(t.TempDir(), "none.sock"), Name: "mooring", Index: "90",
			Handlers: newNode(t, policy.Enforce), Logger: slog.New(slog.DiscardHandler),
			Observer: &a,
		})
		must(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		c.Run(ctx)
		// After the first few attempts, a pause is 1 s to 1.5 s.
		if a.n < 2400 || a.n > 3700 {
			t.Errorf("%d attempts in an hour, want about 2900", a.n)
		}
		if s, _ := c.Status(); s.Phase != plugin.Disconnected {
			t.Errorf("phase after the end = %s, want %s", s.Phase, plugin.Disconnected)
		}
	})
}
