package agent

import (
	"log/slog"
	"path/filepath"
	"time"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/gate"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// gateFile writes the state that the start gate reads. It has one user at a time.
type gateFile struct {
	path   string
	clock  host.Clock
	logger *slog.Logger
	policy func() *policy.Policy // in force

	next     time.Duration // time of the next write without names
	required bool          // the last state has names
	failed   bool          // the last write failed, and the log says so
}

// gatePeriod is the time between two writes of a state without names. It is less than
// [gate.MaxAge].
const gatePeriod = gate.MaxAge / 3

func (a *Agent) gateFile() *gateFile {
	return &gateFile{
		path:   filepath.Join(a.config.Root, gate.StateName),
		clock:  host.LinuxClock{},
		logger: a.logger,
		policy: a.policy,
	}
}

// write replaces the state. A state without names stays for a while: it refuses no domain.
func (g *gateFile) write(owners []gate.Owner) {
	now := time.Duration(g.clock.Now())
	state := gate.State{Written: now}
	p := g.policy()
	if l := p.Lifecycle.Libvirt; l != nil && p.Mode == policy.Enforce {
		state.RequireOwner = l.RequireOwner
	}
	required := len(state.RequireOwner) > 0
	if !g.required && !required && now < g.next {
		return
	}
	if required {
		state.Owners = owners
	}
	err := state.Write(g.path)
	if err != nil && !g.failed {
		g.logger.Error("the agent cannot write the start gate's state; the gate refuses its names",
			"path", g.path, "error", err)
	}
	g.failed, g.required = err != nil, required
	if err == nil {
		g.next = now + gatePeriod
	}
}
