// Package coordinator is the main loop of mooring-shim beside a launcher. It resizes the VM to the
// size that the pod asks for, and shuts the guest down on a stop request.
package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/shutdown"
	"github.com/mooring-vm/mooring/shim/virt"
)

// Agent is the node's agent, reached through the pod's socket.
type Agent interface {
	resize.Node

	// Desired reads the VM's desired size and its limits.
	Desired(ctx context.Context) (podapi.Desired, error)

	// Report reports the state of a resize.
	Report(ctx context.Context, r podapi.Report) error

	// Stops subscribes the shim as a stop handler until ctx ends. The channel delivers the stop
	// request at first and after each change. Stops does not block.
	Stops(ctx context.Context) <-chan podapi.Stop

	// Lease prevents the agent from stopping the VM without a request of the pod, for d from now.
	// 0 or less ends the lease. The agent refuses a lease during a Hold, and a Hold during a lease.
	Lease(ctx context.Context, d time.Duration, reason string) error
}

// Config is the configuration of a coordinator. Domain, AwaitStopRequest, Follow, Policy, Shutdown
// and Log are optional.
type Config struct {
	// Connection connects to libvirt. Domain is the name or UUID of the VM; empty: the only running
	// VM.
	Connection virt.Connection
	Domain     string

	Agent   Agent
	Journal resize.Journal

	// AwaitStopRequest blocks until the pod has requested a stop of its VM. The error is ctx's.
	// nil: the pod never does.
	AwaitStopRequest func(ctx context.Context) error

	// Overhead is the memory that the launcher needs in addition to the guest. Formula, if set,
	// takes its place: it computes the overhead from the current domain XML.
	Overhead target.Overhead
	Formula  *target.Formula

	// Follow resizes the VM to the container's limits. Without Follow the limits only bound the
	// size that annotations ask for.
	Follow bool

	Policy   resize.Policy
	Shutdown shutdown.Options
	Log      *slog.Logger
}

const (
	// idleInterval is the interval of reading VM and desired size, and of comparing them, while
	// nothing happens. Events of libvirt and of the agent come earlier, but libvirt's can be lost.
	idleInterval = 30 * time.Second

	// retryInterval is the interval of reading a VM that may migrate or has not been read, and of
	// repeating failed calls to the agent. libvirt has no event for the end of a failed migration.
	retryInterval = time.Second

	// bootTime is the time from the start of the service for a VM in which its guest may boot.
	bootTime = 5 * time.Minute

	// A failed resize is retried while its size is desired: after minRetry, then after twice the
	// time of the previous retry, up to maxRetry.
	minRetry = 15 * time.Second
	maxRetry = 5 * time.Minute
)

// Coordinator serves one VM at a time.
type Coordinator struct{ Config }

// New returns a coordinator. The error names the missing field.
func New(c Config) (*Coordinator, error) {
	for _, f := range []struct {
		name    string
		missing bool
	}{
		{"Connection", c.Connection == nil}, {"Agent", c.Agent == nil},
		{"Journal", c.Journal == nil},
		{"Overhead or Formula", c.Overhead == nil && c.Formula == nil},
	} {
		if f.missing {
			return nil, fmt.Errorf("new coordinator: %s is required", f.name)
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.AwaitStopRequest == nil {
		c.AwaitStopRequest = func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
	}
	if c.Shutdown.Grace <= 0 {
		c.Shutdown.Grace = shutdown.DefaultGrace
	}
	if c.Shutdown.Log == nil {
		c.Shutdown.Log = c.Log
	}
	return &Coordinator{c}, nil
}

// Run serves the VM, and the next one after its end, until ctx ends. It waits without limit for
// libvirt, the VM and the agent.
func (c *Coordinator) Run(ctx context.Context) {
	for {
		d, err := c.awaitVM(ctx)
		if err != nil {
			return
		}
		c.serveVM(ctx, d)
	}
}

// awaitVM waits for a running VM. The error is ctx's.
func (c *Coordinator) awaitVM(ctx context.Context) (virt.Domain, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := c.Connection.Changed(ctx)
	var loggedReason string
	for {
		d, err := c.findVM(ctx)
		if err == nil {
			return d, nil
		}
		if ctx.Err() == nil && err.Error() != loggedReason {
			loggedReason = err.Error()
			c.Log.Info("waiting for the VM", "reason", err)
		}
		next := retryInterval
		if isEnded(err) {
			next = idleInterval
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		case <-time.After(next):
		}
	}
}

var errNone = errors.New("no VM runs")

// findVM returns the VM if it is running.
func (c *Coordinator) findVM(ctx context.Context) (virt.Domain, error) {
	if c.Domain != "" {
		d, err := c.Connection.Domain(ctx, c.Domain)
		if err != nil {
			return nil, err
		}
		return d, checkRunning(ctx, d)
	}
	all, err := c.Connection.Domains(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(d virt.Domain) bool { return checkRunning(ctx, d) != nil })
	switch len(all) {
	case 0:
		return nil, errNone
	case 1:
		return all[0], nil
	}
	return nil, fmt.Errorf("%d VMs are running: want one, or the name of one of them", len(all))
}

// hasEnded reports whether the VM has certainly ended.
func hasEnded(ctx context.Context, d virt.Domain) bool {
	return isEnded(checkRunning(ctx, d))
}

func isEnded(err error) bool { return errors.Is(err, errNone) || errors.Is(err, virt.ErrNoDomain) }

func checkRunning(ctx context.Context, d virt.Domain) error {
	phase, err := d.Phase(ctx)
	if err == nil && phase.Ended() {
		err = errNone
	}
	return err
}

// serveVM serves one VM until it ends or ctx ends. A stop request cancels a running resize. Its
// last calls to the agent may overlap with the shutdown.
func (c *Coordinator) serveVM(ctx context.Context, d virt.Domain) {
	vmCtx, stopWork := context.WithCancel(ctx)
	defer stopWork()
	workDone, lives := make(chan struct{}), make(chan virt.Life, 1)
	stopping := make(chan struct{})
	go func() {
		defer close(workDone)
		w := vmWorker{Coordinator: c, domain: d, lives: lives, stopping: stopping}
		w.run(ctx, vmCtx)
	}()
	c.awaitStop(ctx, d, lives, stopping, stopWork)
	<-workDone // the journal has one user at a time
	if ctx.Err() == nil && hasEnded(ctx, d) {
		c.clearRequirement(ctx)
	}
}

// clearRequirement resets the memory requirement so the next VM does not inherit it.
func (c *Coordinator) clearRequirement(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if err := c.Agent.RequireMemory(ctx, 0); err != nil {
		c.Log.Debug("cannot reset the memory requirement; the agent drops it with the VM process",
			"error", err)
	}
}

// awaitStop waits for a stop request or the end of the VM. Then it calls stopWork. After a stop
// request it shuts the guest down. lives receives each observation of the VM. The pod's request
// closes stopping.
func (c *Coordinator) awaitStop(
	ctx context.Context, d virt.Domain, lives chan virt.Life, stopping chan<- struct{},
	stopWork func(),
) {
	ctx, cancel := context.WithCancel(ctx)
	w := newWatcher(ctx, d, lives, stopRequests{agent: c.Agent, log: c.Log,
		grace: c.Shutdown.Grace, stopping: stopping}, c.AwaitStopRequest)
	defer w.close()
	defer cancel()
	requested := w.awaitStopOrEnd(ctx)
	stopWork()
	if requested {
		c.shutDown(ctx, w)
	}
}

// sleep waits for d. The error is ctx's.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
