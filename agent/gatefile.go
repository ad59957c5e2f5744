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
	known  func() bool           // the policy in force is final: see [policies.known]

	next   time.Duration // time of the next write without names
	named  bool          // the last state has names
	failed bool          // the last write failed, and the log says so
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
		known:  a.policies.known,
	}
}

// write replaces the state. A state without names stays for a while: it refuses no domain. Before
// the NodePolicies are known there is none, and the hook takes its own list.
func (g *gateFile) write(owners []gate.Owner) {
	now := time.Duration(g.clock.Now())
	state := gate.State{Written: now}
	p := g.policy()
	if l := p.Lifecycle.Libvirt; l != nil && p.Mode == policy.Enforce {
		state.RequireOwner = l.RequireOwner
	} else if l != nil {
		state.ObserveOwner = l.RequireOwner
	}
	required := len(state.RequireOwner) > 0
	named := required || len(state.ObserveOwner) > 0
	if !required && !g.known() || !named && !g.named && now < g.next {
		return
	}
	if named {
		state.Owners = owners
	}
	err := state.Write(g.path)
	if err != nil && !g.failed {
		g.logger.Error("the agent cannot write the start gate's state; the gate refuses its names",
			"path", g.path, "error", err)
	}
	g.failed, g.named = err != nil, named
	if err == nil {
		g.next = now + gatePeriod
	}
}
