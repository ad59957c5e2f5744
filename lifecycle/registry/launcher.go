package registry

import (
	"slices"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
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
	Demand *host.Limit

	// Undecided is set for a launcher that runs already while it is not known
	// which rule holds for it. It is held to nothing until then.
	Undecided bool

	// Given says what the launcher was given, and has therefore to have.
	Given Given

	// Ceiling is the most that the policy lets its VM processes lock; nil: nothing, or
	// it is not known which rule holds.
	Ceiling *host.Limit

	// Live is what its VM process has got by a resize; nil: nothing.
	Live *Live

	// Limits are those of the latest request to the runtime.
	Limits ContainerLimits

	// Size is the VM size in the annotations that the pod was created with. SizeError says why
	// they could not be read; Size is empty then.
	Size      api.Size
	SizeError string

	// Domain is the domain of the node's libvirt that the launcher may bind, as
	// it declared it, a UUID in the usual form. Empty when it declared none, or
	// may not have it. While Undecided is set it is only kept from others.
	Domain string

	// GracePeriod and Watchdog are what the pod declared, in whole seconds;
	// 0: nothing.
	GracePeriod, Watchdog time.Duration

	// Cgroup is the path of the container's cgroup below the root of the
	// cgroup v2 hierarchy, empty until the guard has found it.
	Cgroup string

	// Stop is what the pod is asked for now; nil: nothing.
	Stop *tie.PodStop

	// RepairReportedAt is when an Event last reported a repair of the memory lock.
	RepairReportedAt time.Time

	generation uint64 // of the last Put or Enter
	beat       tie.Beat
	watchdog   time.Duration // 0: no heartbeat is expected
	removed    bool          // by the runtime, while VM processes are left
}

// Given is what a launcher was given. In observe mode, and for a launcher that
// runs although it would be refused, it is empty.
type Given struct {
	Memlock *host.Limit         // nil: none was asked for
	Cgroup  []api.CgroupSetting // sorted by file
}

// CgroupFile returns what a cgroup file was given.
func (g Given) CgroupFile(name string) (api.CgroupSetting, bool) {
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

// leaves reports whether VM processes of the launcher are left, or may be.
func (l *Launcher) leaves() bool { return len(l.VMs) > 0 || l.Phase == agentapi.PhaseDraining }

// vmProcesses returns the VM processes of the launcher, by name.
func (l *Launcher) vmProcesses() map[host.Process]bool {
	all := map[host.Process]bool{}
	for _, v := range l.VMs {
		all[host.Process{PID: v.PID, StartTime: v.StartTime}] = true
	}
	return all
}

// VMLocks returns what each VM process of the launcher is to have, by name.
func (l *Launcher) VMLocks() map[host.Process]host.Limit {
	all := map[host.Process]host.Limit{}
	for vm := range l.vmProcesses() {
		all[vm] = l.VMLock(vm)
	}
	return all
}

// SetHeartbeat sets the last heartbeat, and how old it may become; 0: none is expected.
func (l *Launcher) SetHeartbeat(last tie.Beat, watchdog time.Duration) {
	l.beat, l.watchdog = last, watchdog
}

// Shown is what people see of the launcher at that moment.
func (l *Launcher) Shown(now host.Boottime) agentapi.Launcher {
	shown := l.Launcher
	if l.watchdog == 0 {
		return shown
	}
	age := now.Sub(l.beat.At)
	shown.Heartbeat = &agentapi.Heartbeat{Watchdog: l.watchdog.Seconds(), Expired: age > l.watchdog}
	if l.beat.Seen {
		seconds := age.Seconds()
		shown.Heartbeat.Age = &seconds
	}
	return shown
}

// holds reports whether the launcher takes part in the node's memlock account:
// from the decision until it stops, and no VM process is left of it.
func (l *Launcher) holds() bool {
	if len(l.VMs) > 0 {
		return true
	}
	switch l.State {
	case agentapi.StateCreating, agentapi.StateCreated, agentapi.StateRunning:
		return true
	}
	return false
}

// held returns what the launcher has of the node's memlock account.
func (l *Launcher) held() (demand host.Limit, ok bool) {
	most := l.Demand
	if l.Live != nil && l.Live.Lock != nil && (most == nil || *l.Live.Lock > *most) {
		most = l.Live.Lock
	}
	if most == nil || !l.holds() {
		return 0, false
	}
	return *most, true
}

// clone copies what can be changed through l. What a launcher was given, and the
// terms of its settings, never change after Put.
func (l *Launcher) clone() Launcher {
	c := *l
	c.Settings = slices.Clone(l.Settings)
	c.Notes = slices.Clone(l.Notes)
	return c
}
