package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

// dialError says that there was nothing to connect to.
type dialError struct{ error }

// Unwrap returns what the system said.
func (e dialError) Unwrap() error { return e.error }

// errLost is the end of a connection that stood.
var errLost = errors.New("the runtime closed the connection: it stopped, or dropped the plugin for a request that took too long")

// failurePolicy says what the runtime does with a request that the plugin does not
// answer in time. Runtimes before NRI 0.12.4 ignore it.
//
// FailRequest: an unanswered CreateContainer may be that of a launcher, which must
// not start without its limits. It fails; kubelet tries again.
//
// Not KeepConnected: a plugin that hangs would then fail each request of the node
// after a time-out, those of plain pods, too. So the runtime drops it: plain pods
// start, launchers are held back by the required-plugins annotation, and the agent,
// if it lives, sees the connection end and makes a new one.
func failurePolicy() *nri.FailurePolicy {
	return &nri.FailurePolicy{FailRequest: true, KeepConnected: false}
}

// attempt makes one connection and returns when it is over. It uses a new stub
// each time: one whose Start failed keeps its dead connection for good.
func (c *Connection) attempt(ctx context.Context) error {
	c.status.enter(Connecting, func(*Status) {})
	conn, err := c.dialer.DialContext(ctx, "unix", c.Socket)
	if err != nil {
		return dialError{err}
	}
	t := newTrunk(conn)
	defer t.Close()
	s := &session{Handlers: c.Handlers, status: c.status, trunk: t}
	requests := &inflight{}
	st, err := stub.New(s,
		stub.WithConnection(t),
		stub.WithTTRPCOptions(nil, requests.options()),
		stub.WithPluginName(c.Name),
		stub.WithPluginIdx(c.Index),
		stub.WithLogger(nriLogger{c.Logger}),
		stub.WithFailurePolicy(failurePolicy()),
		stub.WithOnClose(func() { t.Close() }), // without it, stubs of old end the process
	)
	if err != nil {
		return err
	}
	if err := c.start(ctx, st, t); err != nil {
		return err
	}
	c.Logger.Info("connected to the container runtime", "socket", c.Socket, "nri", st.RuntimeNRIVersion(),
		"request_timeout", st.RequestTimeout())
	return c.serve(ctx, st, t, requests)
}

// start starts the stub under a watchdog. Start waits for ever, whatever becomes
// of its context, if the runtime goes away between registration and
// configuration: it holds the lock that the stub's own handler of a lost
// connection needs. A stub that does not even return when its connection was
// closed is left behind, with its goroutines, and counted.
func (c *Connection) start(ctx context.Context, st stub.Stub, t *trunk) error {
	started := make(chan error, 1)
	// The context stays with the stub's server, for all requests to come.
	go func() { started <- st.Start(context.WithoutCancel(ctx)) }()
	var why error
	select {
	case err := <-started:
		return err
	case <-t.closed():
		why = errors.New("the runtime closed the connection before the plugin was configured")
	case <-ctx.Done():
		if now, _ := c.Status(); now.Phase == Synchronized && c.returns(started) {
			return nil // requests may be under way: they are answered first
		}
		why = ctx.Err()
	case <-time.After(c.StartTimeout):
		why = fmt.Errorf("the runtime did not configure the plugin within %s", c.StartTimeout)
	}
	t.Close()
	select {
	case err := <-started:
		if err != nil {
			why = fmt.Errorf("%w: %w", why, err)
		}
	case <-time.After(stopTimeout):
		c.Observer.StubAbandoned()
	}
	return why
}

// returns reports whether Start returns without an error, which it is about to do once
// the plugin is synchronised.
func (c *Connection) returns(started chan error) bool {
	select {
	case err := <-started:
		started <- err
		return err == nil
	case <-time.After(stopTimeout):
		return false
	}
}

// serve waits for the end of the connection. When it is the agent that ends, what
// the runtime waits for is answered first.
func (c *Connection) serve(ctx context.Context, st stub.Stub, t *trunk, requests *inflight) error {
	select {
	case <-t.closed():
		return errLost
	case <-ctx.Done():
	}
	c.Handlers.Stopping()
	if !requests.drain(t.closed()) {
		c.Logger.Warn("requests of the runtime are left unanswered", "after", drainTimeout)
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); st.Stop() }()
	select {
	case <-stopped:
	case <-time.After(stopTimeout):
		c.Observer.StubAbandoned()
	}
	return ctx.Err()
}

// session is the plugin as one stub sees it: it notes how far the connection is.
type session struct {
	Handlers
	status *status
	trunk  *trunk
}

// Configure implements [Handlers].
func (s *session) Configure(ctx context.Context, config, runtime, version string) (nri.EventMask, error) {
	mask, err := s.Handlers.Configure(ctx, config, runtime, version)
	if err == nil {
		s.status.enterOn(s.trunk, Configured, func(now *Status) {
			now.RuntimeName, now.RuntimeVersion = runtime, version
		})
	}
	return mask, err
}

// Synchronize implements [Handlers].
func (s *session) Synchronize(ctx context.Context, pods []*nri.PodSandbox, ctrs []*nri.Container) (
	[]*nri.ContainerUpdate, error,
) {
	updates, err := s.Handlers.Synchronize(ctx, pods, ctrs)
	if err == nil {
		s.status.enterOn(s.trunk, Synchronized, func(now *Status) { now.Err = nil })
	}
	return updates, err
}
