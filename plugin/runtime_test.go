package plugin_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	nri "github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"

	"github.com/mooring-vm/mooring/plugin"
)

func TestMain(m *testing.M) {
	lockForParent()
	nrilog.Set(quiet{})
	// Busy machines are slow; no test but one is about time-outs.
	adaptation.SetPluginRequestTimeout(deadline)
	adaptation.SetPluginRegistrationTimeout(deadline)
	os.Exit(m.Run())
}

// quiet is a logger for NRI's runtime side, which can only be set globally.
type quiet struct{}

func (quiet) Debugf(context.Context, string, ...any) {}
func (quiet) Infof(context.Context, string, ...any)  {}
func (quiet) Warnf(context.Context, string, ...any)  {}
func (quiet) Errorf(context.Context, string, ...any) {}

// deadline is how long a test waits for what should happen at once.
const deadline = 30 * time.Second

// runtime is NRI's own runtime side, as containerd has it, behind a listener that can cut the
// connections: a real runtime's end with its process.
type runtime struct {
	*adaptation.Adaptation
	pods       []*nri.PodSandbox
	containers []*nri.Container

	inner string
	mu    sync.Mutex
	conns []net.Conn
	front net.Listener
}

// socketDir returns a directory whose paths are short enough for sockets.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "nri")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// startRuntime starts a runtime that listens at socket.
func startRuntime(t *testing.T, socket string, options ...adaptation.Option) *runtime {
	t.Helper()
	r := &runtime{inner: filepath.Join(socketDir(t), "inner.sock")}
	sync := func(ctx context.Context, cb adaptation.SyncCB) error {
		_, err := cb(ctx, r.pods, r.containers)
		return err
	}
	update := func(context.Context, []*nri.ContainerUpdate) ([]*nri.ContainerUpdate, error) {
		return nil, nil
	}
	options = append(options, adaptation.WithSocketPath(r.inner),
		adaptation.WithPluginPath(socketDir(t)), adaptation.WithPluginConfigPath(socketDir(t)))
	var err error
	r.Adaptation, err = adaptation.New("testruntime", "v1.2.3", sync, update, options...)
	must(t, err)
	must(t, r.Start())
	r.listen(t, socket)
	t.Cleanup(r.kill)
	return r
}

// listen forwards connections to socket to the runtime proper.
func (r *runtime) listen(t *testing.T, socket string) {
	t.Helper()
	_ = os.Remove(socket) // as runtimes do
	var err error
	r.front, err = net.Listen("unix", socket)
	must(t, err)
	go func() {
		for {
			conn, err := r.front.Accept()
			if err != nil {
				return
			}
			r.forward(conn)
		}
	}()
}

func (r *runtime) forward(conn net.Conn) {
	back, err := net.Dial("unix", r.inner)
	if err != nil {
		conn.Close()
		return
	}
	r.mu.Lock()
	r.conns = append(r.conns, conn, back)
	r.mu.Unlock()
	pipe := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		to.Close()
		from.Close()
	}
	go pipe(conn, back)
	go pipe(back, conn)
}

// kill ends the runtime with all its connections. It may be called twice.
func (r *runtime) kill() {
	r.front.Close()
	r.mu.Lock()
	for _, c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.Stop()
}

// connect keeps a plugin connected to socket until the test ends.
func connect(
	t *testing.T, socket, index string, h plugin.Handlers, o plugin.Observer,
) *plugin.Connection {
	t.Helper()
	c, err := plugin.NewConnection(plugin.ConnectionConfig{
		Socket: socket, Name: "mooring", Index: index, Handlers: h,
		Logger: slog.New(slog.DiscardHandler), Observer: o,
		MinBackoff: time.Millisecond, MaxBackoff: 50 * time.Millisecond,
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(deadline):
			t.Error("Run did not return after its context was cancelled")
		}
	})
	return c
}

// await waits until the connection's status is as wanted.
func await(
	t *testing.T, c *plugin.Connection, what string, want func(plugin.Status) bool,
) plugin.Status {
	t.Helper()
	timeout := time.After(deadline)
	for {
		s, changed := c.Status()
		if want(s) {
			return s
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("connection is not %s: %+v", what, s)
		}
	}
}

func synchronized(s plugin.Status) bool { return s.Phase == plugin.Synchronized }

// attach connects and waits until the runtime requests the plugin.
func attach(
	t *testing.T, r *runtime, socket, index string, h plugin.Handlers, o plugin.Observer,
) *plugin.Connection {
	t.Helper()
	c := connect(t, socket, index, h, o)
	await(t, c, "synchronised", synchronized)
	r.BlockPluginSync().Unblock() // the runtime counts the plugin in only after that
	return c
}

// create requests the runtime's plugins for a container's creation.
func (r *runtime) create(
	pod *nri.PodSandbox, ctr *nri.Container,
) (*nri.ContainerAdjustment, error) {
	reply, err := r.CreateContainer(context.Background(),
		&nri.CreateContainerRequest{Pod: pod, Container: ctr})
	return reply.GetAdjust(), err
}
