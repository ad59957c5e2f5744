package lifecycle

import (
	"slices"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// Key names a launcher for as long as its pod lives. A container that is created
// again, under a new ID, is the same launcher.
type Key struct {
	PodUID    string
	Container string
}

// Launcher is a container that runs a VM: what users are shown of it, and what
// the guard holds it to.
type Launcher struct {
	agentapi.Launcher

	// SandboxID is the runtime's name for the pod. A pod whose sandbox died
	// has two for a while, with the same UID.
	SandboxID string

	// Demand is what the launcher counts for in the node's memlock account,
	// nil when it asks for no lock. In observe mode it would have counted. Of
	// one that runs already it is never less than what it runs with.
	Demand *Limit

	// Undecided is set for a launcher that runs already while it is not known
	// which rule holds for it. It is held to nothing until then.
	Undecided bool

	// Given says what the launcher was given, and has therefore to have.
	Given Given

	// Cgroup is the path of the container's cgroup below the root of the
	// cgroup v2 hierarchy, empty until the guard has found it.
	Cgroup string

	generation uint64    // of the last Put or Enter
	repairTold time.Time // when an event last told of a repair
}

// Given is what a launcher was given. In observe mode, and for a launcher that
// runs although it would be refused, it is empty.
type Given struct {
	Memlock *Limit              // nil: none was asked for
	Cgroup  []api.CgroupSetting // sorted by file
}

// file returns what a cgroup file was given.
func (g Given) file(name string) (api.CgroupSetting, bool) {
	at := slices.IndexFunc(g.Cgroup, func(s api.CgroupSetting) bool { return s.File == name })
	if at < 0 {
		return api.CgroupSetting{}, false
	}
	return g.Cgroup[at], true
}

// Key returns the launcher's name.
func (l *Launcher) Key() Key {
	return Key{PodUID: l.Pod.UID, Container: l.Container.Name}
}

// Setting returns the named setting for change, nil when there is none.
func (l *Launcher) Setting(name string) *agentapi.Setting {
	at := slices.IndexFunc(l.Settings, func(s agentapi.Setting) bool { return s.Name == name })
	if at < 0 {
		return nil
	}
	return &l.Settings[at]
}

// enter changes the state, and notes since when.
func (l *Launcher) enter(state agentapi.State, now time.Time) {
	if l.State != state {
		l.State, l.Since = state, now
	}
}

// holds reports whether the launcher takes part in the node's memlock account:
// from the decision until it stops.
func (l *Launcher) holds() bool {
	switch l.State {
	case agentapi.StateCreating, agentapi.StateCreated, agentapi.StateRunning:
		return true
	}
	return false
}

// held returns what the launcher has of the node's memlock account.
func (l *Launcher) held() (demand Limit, ok bool) {
	if l.Demand == nil || !l.holds() {
		return 0, false
	}
	return *l.Demand, true
}

// clone copies what can be changed through l. What a launcher was given, and the
// terms of its settings, never change after Put.
func (l *Launcher) clone() Launcher {
	c := *l
	c.Settings = slices.Clone(l.Settings)
	c.Notes = slices.Clone(l.Notes)
	return c
}
