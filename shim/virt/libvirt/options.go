package libvirt

import (
	"cmp"
	"log/slog"
	"time"
)

// Options configure a connection. Zero fields have defaults.
type Options struct {
	Log *slog.Logger

	// MinBackoff and MaxBackoff bound the pause between two attempts to connect. Defaults: 100 ms
	// and 5 s.
	MinBackoff, MaxBackoff time.Duration

	// ProbeInterval is the interval at which a running call makes the connection ask libvirt for an
	// answer. After three intervals without one the connection counts as lost. Default: 5 s.
	ProbeInterval time.Duration

	// MaxCalls is the number of concurrent calls. Each needs a connection of libvirt of its own, which
	// stays open for later calls. Default: 16.
	MaxCalls int

	// AgentTimeout is the time State waits for the guest agent. Default: 2 s.
	AgentTimeout time.Duration
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.MinBackoff = cmp.Or(o.MinBackoff, 100*time.Millisecond)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, 5*time.Second)
	o.ProbeInterval = cmp.Or(o.ProbeInterval, 5*time.Second)
	o.MaxCalls = cmp.Or(o.MaxCalls, 16)
	o.AgentTimeout = cmp.Or(o.AgentTimeout, 2*time.Second)
	return o
}
