// Package prestop asks the node's agent to stop the VM of this pod, and waits until
// the agent confirms that it is gone: what a container's preStop hook is to do, so
// that the pod does not end before its VM.
//
// The request is the time of a file, and so is the answer: the request sets it to
// now, the agent sets it back to the epoch. A request outlives the agent.
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

// DefaultPoll is how often the answer is looked for: a stat(2) each time.
const DefaultPoll = 100 * time.Millisecond

// ErrNoDirectory says that the container has no pod directory: it is no launcher, or
// it was created without Mooring. Nothing was asked for, and nobody would answer.
var ErrNoDirectory = touch.ErrNoDirectory

// ErrTimeout says that nobody confirmed in time. The request stays.
var ErrTimeout = errors.New("nobody confirmed in time that the VM is gone")

// Options say how to ask. The zero value waits for as long as ctx lets it.
type Options struct {
	File    string        // "": DefaultFile
	Timeout time.Duration // how long to wait for the answer; 0: until ctx ends
	Poll    time.Duration // how often to look for it; 0: DefaultPoll

	now func() time.Time // of the wall clock; nil: the real one
}

// Run asks for the VM to be stopped and waits for the agent's answer. It returns nil
// once the agent has confirmed that no VM of the pod runs. It waits while the agent is
// away, and through its restarts.
//
// The errors are [ErrNoDirectory]; [ErrTimeout] after Timeout; and, once ctx ends,
// its cause. In the last two cases the request stays: the pod is ending, and the agent
// goes on with it. The request is made also if ctx ends already.
//
// Where several ask at the same time, the one answer is for all. One that asks after
// an answer gets another.
//
// Steps of the wall clock do not matter: the answer is one exact time, which is
// compared with no clock, and Timeout runs on the monotonic clock.
func Run(ctx context.Context, o Options) error {
	o.File, o.Poll = cmp.Or(o.File, DefaultFile), cmp.Or(o.Poll, DefaultPoll)
	if o.now == nil {
		o.now = time.Now
	}
	if o.Timeout < 0 || o.Poll < 0 {
		return fmt.Errorf("prestop: timeout %s, poll %s: want no negative duration", o.Timeout, o.Poll)
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

// ask makes the request. While the node's clock stands at the epoch, as it can after
// a boot without a battery, a touch looks like an answer: then it is repeated.
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

// atEpoch leaves room for the coarser clock that file systems go by.
func atEpoch(now time.Time) bool { return now.Unix() == 0 || now.Unix() == -1 }

// await looks once more when ctx ends: the answer may have come meanwhile.
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
