// Package prestop requests the stop of this pod's VM from the node's agent, and waits until the
// agent confirms that the VM is gone. A container's preStop hook runs it, so that the pod does not
// end before its VM.
//
// Request and confirmation are times of one file. The request sets the file's time to now, the
// agent sets it back to the epoch. A request survives a restart of the agent.
package prestop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/shim/internal/touch"
)

// DefaultFile is the file that launchers touch.
const DefaultFile = "/run/mooring/pod/stop"

// DefaultPoll is the interval between two checks for the confirmation, one stat(2) each.
const DefaultPoll = 100 * time.Millisecond

// ErrNoDirectory means: the container has no pod directory. It is not a launcher, or it was created
// without Mooring. There was no request, because no agent would answer it.
var ErrNoDirectory = touch.ErrNoDirectory

// ErrTimeout means: the agent did not confirm in time. The request stays.
var ErrTimeout = errors.New("the agent did not confirm in time that the VM is gone")

// Options set file and times. The zero value waits until ctx ends.
type Options struct {
	File    string        // "": DefaultFile
	Timeout time.Duration // for the confirmation; 0: until ctx ends
	Poll    time.Duration // interval between two checks; 0: DefaultPoll

	now func() time.Time // wall clock; nil: time.Now
}

// Run requests the stop of the VM and waits for the agent's confirmation. It returns nil once the
// agent has confirmed that no VM of the pod runs. It keeps waiting while the agent is away or
// restarts.
//
// The errors are [ErrNoDirectory], [ErrTimeout] after Timeout, and the cause of ctx's end. In the
// last two cases the request stays: the pod is ending, and the agent continues to stop the VM. Run
// makes the request even if ctx has already ended.
//
// Concurrent requests share one confirmation. A request after a confirmation gets another one.
//
// Steps of the wall clock have no effect: the confirmation is one exact time, and Timeout uses the
// monotonic clock.
func Run(ctx context.Context, o Options) error {
	o.File, o.Poll = cmp.Or(o.File, DefaultFile), cmp.Or(o.Poll, DefaultPoll)
	if o.now == nil {
		o.now = time.Now
	}
	if o.Timeout < 0 || o.Poll < 0 {
		return fmt.Errorf(
			"prestop: timeout %s, poll %s: want no negative duration", o.Timeout, o.Poll,
		)
	}
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Timeout, ErrTimeout)
		defer cancel()
	}
	ticker := time.NewTicker(o.Poll)
	defer ticker.Stop()
	if err := request(ctx, o, ticker.C); err != nil {
		return fmt.Errorf("prestop: %w", err)
	}
	if err := awaitAnswer(ctx, o.File, ticker.C); err != nil {
		return fmt.Errorf("prestop: %w", err)
	}
	return nil
}

// request makes the request. While the node's clock is at the epoch, as after a boot without a
// battery, the touched file looks confirmed. request then touches it again.
func request(ctx context.Context, o Options, tick <-chan time.Time) error {
	for {
		if err := touch.Touch(o.File); err != nil {
			return err
		}
		if !atEpoch(o.now()) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick:
		}
	}
}

// atEpoch allows for the coarser clock of file systems.
func atEpoch(now time.Time) bool { return now.Unix() == 0 || now.Unix() == -1 }

// awaitAnswer checks once more after ctx has ended, because the confirmation may have arrived.
func awaitAnswer(ctx context.Context, file string, tick <-chan time.Time) error {
	for {
		done := ctx.Err() != nil
		touched, err := touch.At(file)
		switch {
		case err != nil:
			return err
		case touched.IsZero():
			return nil
		case done:
			return context.Cause(ctx)
		}
		select {
		case <-ctx.Done():
		case <-tick:
		}
	}
}
