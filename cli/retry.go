package cli

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// watchPause is the least time between two reads of a watching command. In a large cluster some
	// node changes all the time.
	watchPause = 2 * time.Second

	// maxRetryDelay is the longest wait between two attempts after failures.
	maxRetryDelay = 30 * time.Second
)

// outage is a series of failures of a watching command.
type outage struct {
	delay time.Duration // after the last failure; 0: no failure
}

// end ends the outage after a success.
func (o *outage) end() { o.delay = 0 }

// outputError is a failure to write the output.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

// retry waits before the next attempt of a watching command, longer after each failure, or until
// ctx ends. It reports the first failure of an outage, and returns a permanent error. A nil err is
// the end of a watch: the API server ends each watch after 30 to 60 minutes.
func (p *Program) retry(ctx context.Context, o *outage, err error) error {
	_, output := errors.AsType[*outputError](err)
	switch {
	case ctx.Err() != nil:
		return err
	case err == nil:
		sleep(ctx, watchPause)
		return nil
	case output, permanent(err):
		return err
	case o.delay == 0:
		fmt.Fprintf(p.ErrOut, "%s; retrying\n", oneLine(err.Error()))
	}
	o.delay = min(max(2*o.delay, watchPause), maxRetryDelay)
	sleep(ctx, o.delay)
	return nil
}

// unlessDone returns nil after the end of ctx, as for an interrupt.
func unlessDone(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
