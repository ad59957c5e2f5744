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

	// KeepAlive is the interval of keep-alive messages, in whole seconds. After three missed
	// answers the connection counts as lost. Default: 5 s.
	KeepAlive time.Duration

	// MaxCalls is the number of concurrent calls. Default: 16.
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
	o.KeepAlive = max(cmp.Or(o.KeepAlive, 5*time.Second), time.Second)
	o.MaxCalls = cmp.Or(o.MaxCalls, 16)
	o.AgentTimeout = cmp.Or(o.AgentTimeout, 2*time.Second)
	return o
}
