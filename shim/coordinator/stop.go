package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/shutdown"
	"github.com/mooring-vm/mooring/shim/virt"
)

// lostAfter is how long libvirt may be away before the shim leaves the VM's end to the
// agent: nobody here could see to it.
const lostAfter = 5 * time.Second

// errWithdrawn says that the agent asks no more: the VM has ended, or is ended otherwise.
var errWithdrawn = errors.New("the agent does not ask for the end of the VM any more")

// orders say whether a VM is to end. The pod asks by its file, and for good; the agent
// asks for reasons of its own.
type orders struct {
	file  func() (bool, error)
	agent Agent
	log   *slog.Logger

	stops   <-chan podapi.Stop // nil: the agent does not ask
	leave   func()             // has it ask no more
	reached time.Time          // when libvirt answered last

	byPod   bool
	byAgent podapi.Stop // as it was told last
	due     time.Time   // when the agent goes on by itself, if it asks
}

// looked takes the outcome of a look at the VM. The agent asks as long as that works.
func (o *orders) looked(ctx context.Context, err error) {
	if !errors.Is(err, virt.ErrConnection) {
		o.reached = time.Now()
	}
	lost := time.Since(o.reached) > lostAfter
	switch {
	case !lost && o.leave == nil:
		ctx, o.leave = context.WithCancel(ctx)
		o.stops = o.agent.Stops(ctx)
	case lost && o.leave != nil:
		o.log.Warn("libvirt is away, and the end of the VM is left to the agent")
		o.leave()
		o.stops, o.leave, o.byAgent = nil, nil, podapi.Stop{}
	}
}

// read reads what is asked for now, and reports whether the VM is to end.
func (o *orders) read() bool {
	select {
	case stop, ok := <-o.stops:
		if !ok {
			o.stops = nil
			break
		}
		o.byAgent, o.due = stop, time.Now().Add(stop.Left())
	default:
	}
	asked, err := o.file()
	if err != nil {
		o.log.Debug("whether the pod asks for the end of its VM is not known", "error", err)
	}
	o.byPod = o.byPod || asked && err == nil
	return o.byPod || o.byAgent.Asked
}

// reason is for people.
func (o *orders) reason() string {
	if o.byPod {
		return "the pod asks for it"
	}
	return o.byAgent.Why
}

// follow tells of the end of the agent's patience, and of another if that changes, until
// ctx is done, or nobody asks any more: then the error is errWithdrawn. The agent can ask
// for as long as tending lasts.
func (o *orders) follow(ctx, tending context.Context, d virt.Domain, sooner chan time.Time) error {
	var told time.Time
	for {
		_, err := d.State(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		o.looked(tending, err)
		if !o.read() {
			return errWithdrawn
		}
		if o.byAgent.Asked && !o.due.Equal(told) {
			told = o.due
			select {
			case <-sooner: // which nobody has taken
			default:
			}
			sooner <- told
		}
		_ = pause(ctx, period) // the loop looks at ctx
	}
}

// shutDown has the guest shut down, once for all who ask, within the least time that
// anybody has for it. It gives up when nobody asks any more.
func (c *Coordinator) shutDown(ctx context.Context, d virt.Domain, o *orders) {
	c.Log.Info("the guest is asked to shut down", "reason", o.reason())
	tending := ctx
	ctx, end := context.WithCancelCause(ctx)
	options, sooner := c.Shutdown, make(chan time.Time, 1)
	options.Sooner = sooner
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		end(o.follow(ctx, tending, d, sooner))
	}()
	outcome, err := shutdown.Run(ctx, d, options)
	end(nil)
	<-followed
	switch {
	case err == nil:
		c.Log.Info("the VM has ended", "how", outcome)
	case errors.Is(context.Cause(ctx), errWithdrawn):
		c.Log.Info(errWithdrawn.Error())
	default:
		c.Log.Warn(err.Error())
	}
}
