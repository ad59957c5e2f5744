package policy

import "sync/atomic"

// Current holds the policy in force, which may be replaced at any time. A decision reads it once.
// Its methods may be called concurrently.
type Current struct{ policy atomic.Pointer[Policy] }

// NewCurrent returns a holder of a policy.
func NewCurrent(p *Policy) *Current {
	c := &Current{}
	c.Set(p)
	return c
}

// Get returns the policy in force.
func (c *Current) Get() *Policy { return c.policy.Load() }

// Set puts another policy in force.
func (c *Current) Set(p *Policy) { c.policy.Store(p) }
