package plugin

import (
	"context"
	"errors"
	"fmt"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/containerd/ttrpc"
)

// dialError is the error of an attempt that found no runtime.
type dialError struct{ error }

// Unwrap returns the system's error.
func (e dialError) Unwrap() error { return e.error }

// errLost is the end of an established connection.
var errLost = errors.New("the runtime closed the connection: " +
	"it stopped, or dropped the plugin for a request that took too long")

// failurePolicy tells the runtime how to treat a request without an answer in time. Runtimes before
// NRI 0.12.4 ignore it.
//
// FailRequest: the request may be the CreateContainer of a launcher, which must not start without
// its limits. The request fails, and kubelet retries.
//
// Not KeepConnected: the runtime drops a plugin that hangs. If it kept the plugin, each request of
// the node would fail after a time-out, plain pods included. Without the plugin, plain pods start,
// and the required-plugins annotation holds launchers back. A running agent reconnects.
func failurePolicy() *nri.FailurePolicy {
	return &nri.FailurePolicy{FailRequest: true, KeepConnected: false}
}

// attempt makes one connection and returns at its end. Each attempt needs a new stub, because a
// stub never drops its dead connection after a failed Start.
func (c *Connection) attempt(ctx context.Context) error {
	c.status.enter(Connecting, func(s *Status) { s.RuntimePID = 0 })
	conn, err := c.dialer.DialContext(ctx, "unix", c.Socket)
	if err != nil {
		return dialError{err}
	}
	c.status.enter(Connecting, func(s *Status) { s.RuntimePID = listenerPID(conn) })
	notify := newNotifyConn(conn)
	defer notify.Close()
	s := &session{Handlers: c.Handlers, status: c.status, conn: notify}
	requests := &inflight{}
	st, err := stub.New(s,
		stub.WithConnection(notify),
		stub.WithTTRPCOptions(nil, []ttrpc.ServerOpt{requests.option()}),
		stub.WithPluginName(c.Name),
		stub.WithPluginIdx(c.Index),
		stub.WithLogger(nriLogger{c.Logger}),
		stub.WithFailurePolicy(failurePolicy()),
		stub.WithOnClose(func() { notify.Close() }), // without it, older stubs end the process
	)
	if err != nil {
		return err
	}
	if err := c.start(ctx, st, notify); err != nil {
		return err
	}
	c.Logger.Info("connected to the container runtime", "socket", c.Socket, "nri",
		st.RuntimeNRIVersion(),
		"request_timeout", st.RequestTimeout())
	return c.serve(ctx, st, notify, requests)
}

// start starts the stub under a watchdog. If the runtime goes away between registration and
// configuration, Start ignores its context and waits for ever: it holds the lock that the stub's
// own handler of a lost connection needs. start then closes the connection. It abandons and counts
// a stub that hangs even so.
func (c *Connection) start(ctx context.Context, st stub.Stub, conn *notifyConn) error {
	started := make(chan error, 1)
	// The stub's server keeps the context for all later requests.
	go func() { started <- st.Start(context.WithoutCancel(ctx)) }()
	var why error
	select {
	case err := <-started:
		return err
	case <-conn.closed():
		why = errors.New("the runtime closed the connection before the plugin was configured")
	case <-ctx.Done():
		if now, _ := c.Status(); now.Phase == Synchronized && c.startReturns(started) {
			return nil // serve answers requests under way first
		}
		why = ctx.Err()
	case <-time.After(c.StartTimeout):
		why = fmt.Errorf("the runtime did not configure the plugin within %s", c.StartTimeout)
	}
	conn.Close()
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

// startReturns reports whether Start returns without an error. Once the plugin is synchronised,
// Start is about to return.
func (c *Connection) startReturns(started chan error) bool {
	select {
	case err := <-started:
		started <- err
		return err == nil
	case <-time.After(stopTimeout):
		return false
	}
}

// serve waits for the end of the connection. If the agent ends first, serve lets the plugin answer
// requests under way.
func (c *Connection) serve(
	ctx context.Context, st stub.Stub, conn *notifyConn, requests *inflight,
) error {
	select {
	case <-conn.closed():
		return errLost
	case <-ctx.Done():
	}
	c.Handlers.Stopping()
	if !requests.drain(conn.closed()) {
		c.Logger.Warn("agent stops with unanswered requests of the runtime", "after", drainTimeout)
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

// session passes the requests of one stub to the handlers, and follows the connection's phase.
type session struct {
	Handlers
	status *status
	conn   *notifyConn
}

// Configure implements [Handlers].
func (s *session) Configure(
	ctx context.Context, config, runtime, version string,
) (nri.EventMask, error) {
	mask, err := s.Handlers.Configure(ctx, config, runtime, version)
	if err == nil {
		s.status.enterOn(s.conn, Configured, func(now *Status) {
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
		s.status.enterOn(s.conn, Synchronized, func(now *Status) { now.Err = nil })
	}
	return updates, err
}
