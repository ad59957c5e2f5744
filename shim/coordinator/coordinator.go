// Package coordinator is what mooring-shim does beside a launcher: it makes the VM as
// large as its pod wants it, and has the guest shut down when the pod asks for its end.
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

// Agent is the node's agent, as the pod's socket shows it.
type Agent interface {
	resize.Node

	// Desired reads what the VM is wanted to be.
	Desired(ctx context.Context) (podapi.Desired, error)

	// Report tells people how a resize fares.
	Report(ctx context.Context, r podapi.Report) error

	// Stops has the agent ask the pod before it ends the VM by itself, until ctx ends,
	// and returns what it asks for, as it changes. It does not block.
	Stops(ctx context.Context) <-chan podapi.Stop

	// Lease holds back, for that long from now, what the agent would do to the VM without
	// the pod asking; 0 or less ends that. Holds and leases keep each other from beginning.
	Lease(ctx context.Context, d time.Duration, reason string) error
}

// Config is what a coordinator works with. Log, Follow, Policy and Shutdown may be left
// zero.
type Config struct {
	// Connection is that to libvirt, and Domain the name or UUID of the VM; empty: the
	// only one that runs.
	Connection virt.Connection
	Domain     string

	Agent   Agent
	Journal resize.Journal

	// Stops reports whether the pod has asked for the end of its VM. nil: it never does.
	StopRequested func() (bool, error)

	// Overhead is what the launcher needs beside the guest's memory. Formula, if there is
	// one, takes its place: it is asked for the VM as its domain is at the time.
	Overhead target.Overhead
	Formula  *target.Formula

	// Follow has the VM become what the container's limits leave room for. Otherwise
	// they are but the bounds of what is asked for in so many words.
	Follow bool

	Policy   resize.Policy
	Shutdown shutdown.Options
	Log      *slog.Logger
}

const (
	// period is how often is looked where nothing tells.
	pollInterval = 500 * time.Millisecond

	// A resize that failed is tried again, as long as it is wanted: after retryFirst, and
	// after twice the time each time, up to retryMax.
	minRetry = 15 * time.Second
	maxRetry = 5 * time.Minute
)

// Coordinator looks after one VM at a time.
type Coordinator struct{ Config }

// New returns a coordinator. The error names the field that is missing.
func New(c Config) (*Coordinator, error) {
	for _, f := range []struct {
		name    string
		missing bool
	}{
		{"Connection", c.Connection == nil}, {"Agent", c.Agent == nil}, {"Journal", c.Journal == nil}, {"Overhead or Formula", c.Overhead == nil && c.Formula == nil},
	} {
		if f.missing {
			return nil, fmt.Errorf("new coordinator: %s is required", f.name)
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.StopRequested == nil {
		c.StopRequested = func() (bool, error) { return false, nil }
	}
	if c.Shutdown.Log == nil {
		c.Shutdown.Log = c.Log
	}
	return &Coordinator{c}, nil
}

// Run looks after the VM, and after the next one when that has ended, until ctx is
// done. It waits for libvirt, the VM and the agent for as long as they are away.
func (c *Coordinator) Run(ctx context.Context) {
	for {
		d, err := c.awaitVM(ctx)
		if err != nil {
			return
		}
		c.serveVM(ctx, d)
	}
}

// await waits for the VM to run. The error is that of ctx.
func (c *Coordinator) awaitVM(ctx context.Context) (virt.Domain, error) {
	var told string
	for {
		d, err := c.findVM(ctx)
		if err == nil {
			return d, nil
		}
		if ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			c.Log.Info("waiting for the VM", "reason", err)
		}
		if err := sleep(ctx, pollInterval); err != nil {
			return nil, err
		}
	}
}

var errNone = errors.New("no VM runs")

// find returns the VM, if it runs.
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
	return nil, fmt.Errorf("%d VMs run: want one, or the name of one of them", len(all))
}

// gone reports whether a VM has certainly ended.
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

// tend looks after one VM until it has ended, or ctx ends. Nothing new is plugged
// while the guest shuts down. What is left to be said to the agent then is said meanwhile.
func (c *Coordinator) serveVM(ctx context.Context, d virt.Domain) {
	alive, end := context.WithCancel(ctx)
	defer end()
	resized := make(chan struct{})
	go func() {
		defer close(resized)
		k := vmWorker{Coordinator: c, domain: d}
		k.run(ctx, alive)
	}()
	c.awaitStop(ctx, d, end)
	<-resized // one at a time has the journal
	if ctx.Err() == nil && hasEnded(ctx, d) {
		c.clearRequirement(ctx)
	}
}

// needNothing has what a VM needed that has ended not be said of the next one.
func (c *Coordinator) clearRequirement(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if err := c.Agent.RequireMemory(ctx, 0); err != nil {
		c.Log.Debug("the agent is not told that the VM needs nothing any more; it knows when its process has ended", "error", err)
	}
}

// attend waits until somebody asks for the end of the VM, or that has ended. Then it ends
// what else is done with the VM, and sees to its end.
func (c *Coordinator) awaitStop(ctx context.Context, d virt.Domain, end func()) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	w := newWatcher(ctx, d, stopRequests{podRequested: c.StopRequested, agent: c.Agent, log: c.Log})
	defer w.close()
	asked := w.awaitStopOrEnd(ctx)
	end()
	if asked {
		c.shutDown(ctx, w)
	}
}

// pause waits, and returns the error of ctx.
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
