package decide

import (
	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// Inherited returns the memory-lock limit that a reported launcher has without Mooring, if Mooring
// has left it in force. nil: unknown.
func Inherited(l *agentapi.Launcher) *host.Rlimit {
	for _, s := range l.Settings {
		if s.Name != agentapi.MemlockSetting || s.Status != agentapi.StatusYielded {
			continue
		}
		if s.Given == api.Unlimited {
			return &host.Rlimit{Soft: host.Unlimited, Hard: host.Unlimited}
		}
		if bytes, err := api.ParseBytes(s.Given); err == nil {
			return &host.Rlimit{Soft: host.Limit(bytes), Hard: host.Limit(bytes)}
		}
	}
	return nil
}
