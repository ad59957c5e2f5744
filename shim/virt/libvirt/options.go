package libvirt

import (
	"cmp"
	"log/slog"
	"time"
)

// Options are how to keep a connection. Zero fields have defaults.
type Options struct {
	Log *slog.Logger

	// MinBackoff and MaxBackoff bound the pause between two attempts to connect:
	// 100 ms and 5 s.
	MinBackoff, MaxBackoff time.Duration

	// KeepAlive is how often libvirt is asked for a sign of life, in whole seconds.
	// It is taken as lost after three that did not come. 5 s.
	KeepAlive time.Duration

	// Calls is how many calls may be under way at once. 16.
	MaxCalls int

	// Agent is how long State waits for the guest agent. 2 s.
	AgentTimeout time.Duration
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.MinBackoff = cmp.Or(o.MinBackoff, 100*time.Millisecond)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, 5*time.Second)
	o.KeepAlive = max(cmp.Or(o.KeepAlive, 5*time.Second), time.Second)
	o.MaxCalls = cmp.Or(o.MaxCalls, 16)
	o.AgentTimeout = cmp.Or(o.AgentTimeout, 2*time.Second)
	return o
}
