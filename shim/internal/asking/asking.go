// Package asking runs a call that may hang, without waiting for it.
package asking

import (
	"context"
	"sync"
)

// Call runs at most one call at a time. After a call that hangs, it starts no further one. It is
// for use by one goroutine.
type Call struct {
	do      func(context.Context) error
	running *sync.WaitGroup
	answer  chan error
	started bool
}

// New returns a Call of do, which must return soon after its context ends. running counts the call
// while it runs.
func New(running *sync.WaitGroup, do func(context.Context) error) *Call {
	return &Call{do: do, running: running, answer: make(chan error, 1)}
}

// Ask starts the call and does not block. While the previous result has not been received, it does
// nothing and returns false.
func (c *Call) Ask(ctx context.Context) bool {
	if c.started {
		return false
	}
	c.started = true
	c.running.Go(func() { c.answer <- c.do(ctx) })
	return true
}

// Answer returns the channel of results. The receiver of a result must then call [Call.Taken].
func (c *Call) Answer() <-chan error { return c.answer }

// Taken allows the next call.
func (c *Call) Taken() { c.started = false }
