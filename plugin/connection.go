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

// Handlers answers NRI requests. [Plugin] implements it.
type Handlers interface {
	Configure(ctx context.Context, config, runtime, version string) (nri.EventMask, error)
	Synchronize(context.Context, []*nri.PodSandbox, []*nri.Container) ([]*nri.ContainerUpdate,
		error)
	Shutdown(context.Context)

	// Stopping is called once, before the last disconnection. Requests may still arrive for a
	// moment.
	Stopping()

	RunPodSandbox(context.Context, *nri.PodSandbox) error
	StopPodSandbox(context.Context, *nri.PodSandbox) error
	RemovePodSandbox(context.Context, *nri.PodSandbox) error

	CreateContainer(context.Context, *nri.PodSandbox, *nri.Container) (
		*nri.ContainerAdjustment, []*nri.ContainerUpdate, error)
	PostCreateContainer(context.Context, *nri.PodSandbox, *nri.Container) error
	StartContainer(context.Context, *nri.PodSandbox, *nri.Container) error
	PostStartContainer(context.Context, *nri.PodSandbox, *nri.Container) error
	UpdateContainer(context.Context, *nri.PodSandbox, *nri.Container, *nri.LinuxResources) (
		[]*nri.ContainerUpdate, error)
	PostUpdateContainer(context.Context, *nri.PodSandbox, *nri.Container) error
	StopContainer(context.Context, *nri.PodSandbox, *nri.Container) ([]*nri.ContainerUpdate, error)
	RemoveContainer(context.Context, *nri.PodSandbox, *nri.Container) error
}

var _ Handlers = (*Plugin)(nil)

const (
	// startTimeout is the runtime's time to register and configure the plugin. A starting runtime
	// handles plugins one after the other. The stub itself waits 5 s for registration, and for ever
	// for configuration.
	startTimeout = 15 * time.Second

	// stopTimeout is a stub's time to return after its connection closed.
	stopTimeout = time.Second

	// dialBackoff bounds the pause after an attempt without a runtime. Another attempt is cheap,
	// and a starting runtime gets its plugin soon.
	dialBackoff = time.Second

	// stableAfter is the age from which a connection resets the pause. A runtime may drop the
	// plugin after each synchronisation, and the plugin must not reconnect in a tight loop.
	stableAfter = 10 * time.Second
)

// ConnectionConfig configures a connection. Times of zero become defaults.
type ConnectionConfig struct {
	Socket   string // of NRI; each attempt dials it, because the runtime recreates it
	Name     string // of the plugin, as in required-plugins annotations
	Index    string // two digits; the runtime asks plugins with lower ones first
	Handlers Handlers
	Logger   *slog.Logger
	Observer Observer // nil: [NopObserver]

	StartTimeout time.Duration // for registration and configuration; 15 s
	MinBackoff   time.Duration // before the first new attempt; 250 ms
	MaxBackoff   time.Duration // between attempts; 15 s, but 1 s while there is no runtime
}

// Connection keeps a plugin connected to the container runtime, through restarts of both. The rest
// of the agent works on while it is disconnected.
type Connection struct {
	ConnectionConfig
	status *status
	dialer net.Dialer
}

// NewConnection returns a connection. Run connects it.
func NewConnection(cfg ConnectionConfig) (*Connection, error) {
	if cfg.Handlers == nil || cfg.Logger == nil || cfg.Socket == "" {
		return nil, errors.New("new connection: handlers, logger and socket are required")
	}
	if err := errors.Join(nri.CheckPluginIndex(cfg.Index), nri.CheckPluginName(cfg.Name)); err !=
		nil {
		return nil, err
	}
	if cfg.Observer == nil {
		cfg.Observer = NopObserver{}
	}
	for _, t := range []struct {
		value *time.Duration
		or    time.Duration
	}{
		{&cfg.StartTimeout, startTimeout},
		{&cfg.MinBackoff, 250 * time.Millisecond},
		{&cfg.MaxBackoff, 15 * time.Second},
	} {
		if *t.value == 0 {
			*t.value = t.or
		}
	}
	return &Connection{ConnectionConfig: cfg, status: newStatus(cfg.Observer.Connection)}, nil
}

// Status returns the state of the connection, and a channel that closes at its next change. Several
// goroutines may call it at once.
func (c *Connection) Status() (Status, <-chan struct{}) { return c.status.get() }

// Run connects, and reconnects after each loss, until ctx is done. Then it answers requests under
// way and disconnects. It returns no error, because another attempt follows each failure. Status
// contains the error of the last attempt.
func (c *Connection) Run(ctx context.Context) {
	var pauses pauses
	for {
		began := time.Now()
		err := c.attempt(ctx)
		if ctx.Err() != nil {
			c.status.enter(Disconnected, func(s *Status) { s.Err = nil })
			return
		}
		if lasted, _ := c.Status(); lasted.Phase == Synchronized &&
			time.Since(began) > stableAfter {
			pauses.broken = nil
		}
		pause := c.pauseAfter(err, &pauses)
		c.reportLost(err, pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// reportLost reports the end of an attempt.
func (c *Connection) reportLost(err error, pause time.Duration) {
	before, _ := c.Status()
	level := slog.LevelWarn
	if before.Err != nil && before.Err.Error() == err.Error() {
		level = slog.LevelDebug // the same as before: the runtime is away for long
	}
	c.Logger.Log(context.Background(), level, "no connection to the container runtime",
		"error", err,
		"socket", c.Socket, "phase", before.Phase, "retry", pause.Round(time.Millisecond))
	c.status.enter(Disconnected, func(s *Status) { s.Err = err })
}

// pauses holds the backoff after broken connections, and the one while there is no runtime. nil
// starts a backoff anew.
type pauses struct {
	broken, absent *wait.Backoff
}

// pauseAfter returns the pause after a failed attempt.
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

// newBackoff returns a backoff that doubles the pause up to most. Jitter spreads the attempts of
// nodes that restart together.
func (c *Connection) newBackoff(most time.Duration) *wait.Backoff {
	return &wait.Backoff{Duration: c.MinBackoff, Factor: 2, Jitter: 0.5, Steps: 64, Cap: most}
}
