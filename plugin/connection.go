package plugin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Handlers answers NRI requests: see [Plugin].
type Handlers interface {
	Configure(ctx context.Context, config, runtime, version string) (nri.EventMask, error)
	Synchronize(context.Context, []*nri.PodSandbox, []*nri.Container) ([]*nri.ContainerUpdate, error)
	Shutdown(context.Context)

	// Stopping is called once, before the plugin disconnects for good.
	// Requests may still come for a moment.
	Stopping()

	RunPodSandbox(context.Context, *nri.PodSandbox) error
	StopPodSandbox(context.Context, *nri.PodSandbox) error
	RemovePodSandbox(context.Context, *nri.PodSandbox) error

	CreateContainer(context.Context, *nri.PodSandbox, *nri.Container) (*nri.ContainerAdjustment, []*nri.ContainerUpdate, error)
	PostCreateContainer(context.Context, *nri.PodSandbox, *nri.Container) error
	StartContainer(context.Context, *nri.PodSandbox, *nri.Container) error
	PostStartContainer(context.Context, *nri.PodSandbox, *nri.Container) error
	UpdateContainer(context.Context, *nri.PodSandbox, *nri.Container, *nri.LinuxResources) ([]*nri.ContainerUpdate, error)
	PostUpdateContainer(context.Context, *nri.PodSandbox, *nri.Container) error
	StopContainer(context.Context, *nri.PodSandbox, *nri.Container) ([]*nri.ContainerUpdate, error)
	RemoveContainer(context.Context, *nri.PodSandbox, *nri.Container) error
}

var _ Handlers = (*Plugin)(nil)

const (
	// startTimeout is how long the runtime has to register and configure the
	// plugin. The stub itself waits 5 s for the first, and for ever for the
	// second. A runtime that starts up handles plugins one after the other.
	startTimeout = 15 * time.Second

	// stopTimeout is how long a stub has to return once its connection is
	// closed.
	stopTimeout = time.Second

	// dialBackoff bounds the pause after an attempt that found no runtime: it
	// costs nothing to look again, and a runtime that starts does not wait.
	dialBackoff = time.Second

	// stableAfter is how long a connection has to stand for the next attempt
	// to be made quickly again. A runtime that drops the plugin each time
	// after it was synchronised must not be called upon in a tight loop.
	stableAfter = 10 * time.Second
)

// ConnectionConfig says what to connect to, and as what. Zero times are replaced
// with defaults.
type ConnectionConfig struct {
	Socket   string // of NRI; dialled anew for each attempt, because the runtime recreates it
	Name     string // of the plugin; what required-plugins annotations name
	Index    string // two digits; plugins with lower ones are asked first
	Handlers Handlers
	Logger   *slog.Logger
	Observer Observer // nil: nothing is counted

	StartTimeout time.Duration // for registration and configuration; 15 s
	MinBackoff   time.Duration // before the first new attempt; 250 ms
	MaxBackoff   time.Duration // between attempts; 15 s, but 1 s while there is no runtime
}

// Connection keeps a plugin connected to the container runtime, through restarts
// of either. Everything else in the agent lives on while it is disconnected.
type Connection struct {
	ConnectionConfig
	status *status
	dialer net.Dialer
}

// NewConnection returns a connection that is made when Run is called.
func NewConnection(cfg ConnectionConfig) (*Connection, error) {
	if cfg.Handlers == nil || cfg.Logger == nil || cfg.Socket == "" {
		return nil, errors.New("new connection: handlers, logger and socket are required")
	}
	if err := errors.Join(nri.CheckPluginIndex(cfg.Index), nri.CheckPluginName(cfg.Name)); err != nil {
		return nil, err
	}
	if cfg.Observer == nil {
		cfg.Observer = NopObserver{}
	}
	for _, t := range []struct {
		value *time.Duration
		or    time.Duration
	}{{&cfg.StartTimeout, startTimeout}, {&cfg.MinBackoff, 250 * time.Millisecond}, {&cfg.MaxBackoff, 15 * time.Second}} {
		if *t.value == 0 {
			*t.value = t.or
		}
	}
	return &Connection{ConnectionConfig: cfg, status: newStatus(cfg.Observer.Connection)}, nil
}

// Status returns the state of the connection, and a channel that is closed when
// it changes. It may be called from several goroutines at once.
func (c *Connection) Status() (Status, <-chan struct{}) { return c.status.get() }

// Run connects, and connects again whenever the connection is lost, until ctx is
// done; then it disconnects in order. It returns no error: there is always a next
// attempt, and Status tells how the last one went.
func (c *Connection) Run(ctx context.Context) {
	var pauses pauses
	for {
		began := time.Now()
		err := c.attempt(ctx)
		if ctx.Err() != nil {
			c.status.enter(Disconnected, func(s *Status) { s.Err = nil })
			return
		}
		if lasted, _ := c.Status(); lasted.Phase == Synchronized && time.Since(began) > stableAfter {
			pauses.broken = nil
		}
		pause := c.pauseAfter(err, &pauses)
		c.lost(err, pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// lost reports the end of an attempt.
func (c *Connection) lost(err error, pause time.Duration) {
	before, _ := c.Status()
	level := slog.LevelWarn
	if before.Err != nil && before.Err.Error() == err.Error() {
		level = slog.LevelDebug // as the last time: a runtime that is away for long
	}
	c.Logger.Log(context.Background(), level, "no connection to the container runtime", "error", err,
		"socket", c.Socket, "phase", before.Phase, "retry", pause.Round(time.Millisecond))
	c.status.enter(Disconnected, func(s *Status) { s.Err = err })
}

// pauses are those between attempts: after connections that came up and broke,
// and while there is nothing to connect to. nil: they begin anew.
type pauses struct {
	broken, absent *wait.Backoff
}

// pauseAfter returns how long to wait after an attempt that failed.
func (c *Connection) pauseAfter(err error, p *pauses) time.Duration {
	if _, ok := errors.AsType[dialError](err); ok {
		if p.absent == nil {
			p.absent = c.newBackoff(min(c.MaxBackoff, dialBackoff))
		}
		return p.absent.Step()
	}
	p.absent = nil
	if p.broken == nil {
		p.broken = c.newBackoff(c.MaxBackoff)
	}
	return p.broken.Step()
}

// newBackoff doubles the pause up to most. The jitter keeps the nodes of a cluster,
// restarted together, from moving in step.
func (c *Connection) newBackoff(most time.Duration) *wait.Backoff {
	return &wait.Backoff{Duration: c.MinBackoff, Factor: 2, Jitter: 0.5, Steps: 64, Cap: most}
}
