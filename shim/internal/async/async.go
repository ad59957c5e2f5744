// Package async runs a call that may hang, without waiting for it.
package async

import (
	"context"
	"sync"
)

// Call runs at most one call at a time. After a call that hangs, it starts no further one. It is
// for use by one goroutine.
type Call struct {
	do      func(context.Context) error
	running *sync.WaitGroup
	result  chan error
	started bool
}

// New returns a Call of do, which must return soon after its context ends. running counts the call
// while it runs.
func New(running *sync.WaitGroup, do func(context.Context) error) *Call {
	return &Call{do: do, running: running, result: make(chan error, 1)}
}

// Start starts the call and does not block. While the previous result has not been received, it
// does nothing and returns false.
func (c *Call) Start(ctx context.Context) bool {
	if c.started {
		return false
	}
	c.started = true
	c.running.Go(func() { c.result <- c.do(ctx) })
	return true
}

// Result returns the channel of results. The receiver of a result must then call [Call.Reset].
func (c *Call) Result() <-chan error { return c.result }

// Reset allows the next call.
func (c *Call) Reset() { c.started = false }
