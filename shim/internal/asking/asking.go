// Package asking asks what may never be answered, without waiting for it.
package asking

import (
	"context"
	"sync"
)

// Call is a call of which there is at most one under way: one that hangs is not followed
// by others that would hang, too. It is for one goroutine.
type Call struct {
	do      func(context.Context) error
	running *sync.WaitGroup
	answer  chan error
	started bool
}

// New returns a call of do, which returns soon after its context is done. running counts
// it for as long as it is under way.
func New(running *sync.WaitGroup, do func(context.Context) error) *Call {
	return &Call{do: do, running: running, answer: make(chan error, 1)}
}

// Ask calls, and does not block. It returns false and does nothing while the last answer
// has not been taken.
func (c *Call) Ask(ctx context.Context) bool {
	if c.started {
		return false
	}
	c.started = true
	c.running.Go(func() { c.answer <- c.do(ctx) })
	return true
}

// Answer is sent the answer. Who has received it calls [Call.Taken].
func (c *Call) Answer() <-chan error { return c.answer }

// Taken lets the call be made again.
func (c *Call) Taken() { c.started = false }
