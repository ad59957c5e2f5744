package registry

import (
	"slices"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// Key identifies a launcher during the life of its pod. A re-created container with a new ID is the
// same launcher.
type Key struct {
	PodUID    string
	Container string
}

// Launcher is a container that runs a VM: the data shown to users and the settings that the guard
// checks.
type Launcher struct {
	agentapi.Launcher

	// SandboxID is the runtime's ID of the pod sandbox. After the death of a sandbox a pod has two
	// for a while, with the same UID.
	SandboxID string

	// Demand is the memory lock for which the node's account charges the launcher; nil: no charge.
	// In observe mode it is the lock of enforce mode. A running launcher demands at least its
	// current limit.
	Demand *host.Limit

	// Undecided is set while the policy rule of a running launcher is unknown. The guard then
	// skips the launcher.
	Undecided bool

	// Given holds the granted settings, which the launcher must have.
	Given Given

	// Ceiling is the policy's maximum for the memory-lock limit of VM processes; nil: none, or the
	// rule is unknown.
	Ceiling *host.Limit

	// Maximum is the policy's explicit maximum for the memory-lock limit of a process, in both
	// modes; nil: none, or the launcher runs although the policy refuses it.
	Maximum *host.Limit

	// Live holds limits granted to the VM process by a resize; nil: none.
	Live *Live

	// Limits are the limits in the latest request to the runtime.
	Limits ContainerLimits

	// MemoryLimit is the memory limit in force in bytes: the latest one that the agent has not
	// refused; 0: none.
	MemoryLimit int64

	// HugePages is the pod's limit of huge pages at the launcher's creation, in bytes.
	HugePages int64

	// PinsByIOMMUFD is set if the container has /dev/iommu and no device of vDPA or RDMA. Pages that
	// its VM processes have in VmPin only are then pages of iommufd.
	PinsByIOMMUFD bool

	// Size is the VM size in the annotations at the pod's creation. SizeError is the error of
	// reading them; Size is then empty.
	Size      api.Size
	SizeError string

	// Domain is the domain of the node's libvirt that the launcher declared and may bind, in the
	// usual form of a UUID. Empty: none declared, or denied. While Undecided is set, it only
	// excludes other launchers.
	Domain string

	// GracePeriod and Watchdog are the pod's declared values in whole seconds; 0: none.
	GracePeriod, Watchdog time.Duration

	// Cgroup is the path of the container's cgroup below the root of the cgroup v2 hierarchy; empty
	// until the guard finds it.
	Cgroup string

	// Ended is set after the end of the launcher process, which the supervisor observes. The runtime
	// may still show the container as running.
	Ended bool

	// Stop is the current stop request to the pod; nil: none.
	Stop *tie.ShutdownRequest

	// LacksLock is set once the container's first process has lacked the granted memory lock. Other
	// processes may have inherited too little.
	LacksLock bool

	// RepairReportedAt is when an Event last reported a repair of the memory lock.
	RepairReportedAt time.Time

	// AboveReportedAt is when an Event last reported a limit above Maximum.
	AboveReportedAt time.Time

	generation uint64 // of the last Put or SetState
	beat       tie.Heartbeat
	watchdog   time.Duration // 0: no heartbeat expected
	removed    bool          // the runtime removed it, but VM processes remain
}

// Given holds granted settings. It is empty in observe mode, and for a running launcher that would
// be refused.
type Given struct {
	Memlock *host.Limit         // nil: none requested
	VMLock  *host.Limit         // minimum for the VM process; nil: Memlock
	Cgroup  []api.CgroupSetting // sorted by file
}

// CgroupFile returns the granted value of a cgroup file.
func (g Given) CgroupFile(name string) (api.CgroupSetting, bool) {
	at := slices.IndexFunc(g.Cgroup, func(s api.CgroupSetting) bool { return s.File == name })
	if at < 0 {
		return api.CgroupSetting{}, false
	}
	return g.Cgroup[at], true
}

// Key returns the launcher's key.
func (l *Launcher) Key() Key {
	return Key{PodUID: l.Pod.UID, Container: l.Container.Name}
}

// Setting returns the named setting for changes, or nil.
func (l *Launcher) Setting(name string) *agentapi.Setting {
	at := slices.IndexFunc(l.Settings, func(s agentapi.Setting) bool { return s.Name == name })
	if at < 0 {
		return nil
	}
	return &l.Settings[at]
}

// setState changes the state and its start time.
func (l *Launcher) setState(state agentapi.State, now time.Time) {
	if l.State != state {
		l.State, l.Since = state, now
	}
}

// hasVMsLeft reports whether VM processes of the launcher remain or may remain.
func (l *Launcher) hasVMsLeft() bool { return len(l.VMs) > 0 || l.Phase == agentapi.PhaseDraining }

// vmProcesses returns the set of the launcher's VM processes.
func (l *Launcher) vmProcesses() map[host.Process]bool {
	all := map[host.Process]bool{}
	for _, v := range l.VMs {
		all[host.ProcessAt(v.PID, v.StartTime)] = true
	}
	return all
}

// VMLocks returns the granted minimum for the limit of each VM process. libvirt lowers the limit of
// a VM with devices to its own formula, which is enough.
func (l *Launcher) VMLocks() map[host.Process]host.Limit {
	all := map[host.Process]host.Limit{}
	for vm := range l.vmProcesses() {
		all[vm] = l.GrantedLock(vm)
		if l.Given.VMLock != nil && l.liveOf(vm).Lock == nil {
			all[vm] = *l.Given.VMLock
		}
	}
	return all
}

// SetHeartbeat sets the last heartbeat and its maximum age; 0: no heartbeat expected.
func (l *Launcher) SetHeartbeat(last tie.Heartbeat, watchdog time.Duration) {
	l.beat, l.watchdog = last, watchdog
}

// View returns the launcher as shown to users at this time.
func (l *Launcher) View(now host.Boottime) agentapi.Launcher {
	shown := l.Launcher
	shown.Limits = podapi.Limits(l.Limits)
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

// inAccount reports whether the launcher counts in the node's memory-lock account: from its
// decision until it stops and its last VM process ends.
func (l *Launcher) inAccount() bool {
	if len(l.VMs) > 0 {
		return true
	}
	switch l.State {
	case agentapi.StateCreating, agentapi.StateCreated, agentapi.StateRunning:
		return true
	}
	return false
}

// Bound returns the bound of the memory that the launcher's processes can lock together.
func (l *Launcher) Bound() host.Bound {
	return host.Bound{Memory: l.MemoryLimit, HugePages: l.HugePages, Outside: l.Domain != ""}
}

// Charge returns the launcher's part of the node's account in bytes.
func (l *Launcher) Charge() int64 {
	demand, ok := l.accountDemand()
	if !ok {
		return 0
	}
	bytes, _ := l.Bound().Charge(demand)
	return bytes
}

// accountDemand returns the memory lock for which the node's account charges the launcher.
func (l *Launcher) accountDemand() (demand host.Limit, ok bool) {
	for _, lock := range []*host.Limit{l.Demand, l.liveLock()} {
		if lock != nil {
			demand, ok = max(demand, *lock), true
		}
	}
	return demand, ok && l.inAccount()
}

// clone copies all parts that can change through l. Granted settings and the terms of settings
// never change after Put.
func (l *Launcher) clone() Launcher {
	c := *l
	c.Settings = slices.Clone(l.Settings)
	c.Notes = slices.Clone(l.Notes)
	return c
}
