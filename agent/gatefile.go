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
	path         string
	clock        host.Clock
	logger       *slog.Logger
	requireOwner []string
	enforces     func() bool

	written  bool // a state is in place
	required bool // with names
	failed   bool // the last write failed, and the log says so
}

func (a *Agent) gateFile() *gateFile {
	g := &gateFile{
		path:     filepath.Join(a.config.Root, gate.StateName),
		clock:    host.LinuxClock{},
		logger:   a.logger,
		enforces: func() bool { return a.policy().Mode == policy.Enforce },
	}
	if l := a.policy().Lifecycle.Libvirt; l != nil {
		g.requireOwner = l.RequireOwner
	}
	return g
}

// write replaces the state. A state without names needs no new time: it refuses no domain.
func (g *gateFile) write(owners []gate.Owner) {
	state := gate.State{Written: time.Duration(g.clock.Now())}
	if g.enforces() {
		state.RequireOwner = g.requireOwner
	}
	required := len(state.RequireOwner) > 0
	if g.written && !g.required && !required {
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
	g.failed, g.written, g.required = err != nil, err == nil, required
}
