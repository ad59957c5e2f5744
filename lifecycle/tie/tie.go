package tie

import (
	"slices"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// Tie binds one launcher to its VM processes. It is a value: [Step] returns the next tie and the
// actions to execute.
//
//	Registered <--VM starts / last one ends--> Active
//	    |                                        |
//	    +------------- stop has a reason --------+
//	                       v
//	                   Draining --scan finds no VM process--> Done
//
// A stop has one of three reasons: the pod requested it, the launcher is proven gone, or the
// launcher hangs and the terms say stop. Each VM process goes from Running to Stopping to Killing.
//
// The JSON is the store's format. Its names stay, because a store outlives an upgrade of the agent.
type Tie struct {
	Launcher Launcher `json:"launcher"`
	Terms    Terms    `json:"terms"`

	Phase agentapi.Phase `json:"phase"`
	Why   string         `json:"why,omitempty"` // the reason of Phase
	Since host.Boottime  `json:"since"`         // the start of Phase

	// LauncherProcess is the first process of the container, nil until the supervisor has
	// identified it.
	LauncherProcess *host.Process `json:"owner,omitempty"`

	// LauncherGone is the proof of the launcher process's end. Empty: there is no proof.
	LauncherGone string `json:"ownerGone,omitempty"`

	// LauncherGoneAt is the end of the launcher process, or the last moment of its life known to
	// the agent.
	LauncherGoneAt host.Boottime `json:"ownerGoneAt,omitempty"`

	// AliveAt is the last moment at which the supervisor found the launcher process alive. It
	// checks every few seconds, and only for a launcher with a declared domain.
	AliveAt host.Boottime `json:"aliveAt,omitempty"`

	// StopRequested is set from the pod's stop request until its confirmation. StopConfirmed is set
	// after the confirmation.
	StopRequested bool `json:"stopAsked,omitempty"`
	StopConfirmed bool `json:"stopDone,omitempty"`

	StopHandler StopHandler `json:"taker,omitzero"`

	Heartbeat Heartbeat `json:"beat"`
	Lease     Lease     `json:"lease"`
	PodLease  Lease     `json:"podLease,omitzero"` // set by the pod itself

	// HeldSince is the start of the time in which only PodLease held back the stop of an ended
	// launcher's VM; 0: there was none.
	HeldSince host.Boottime `json:"heldSince,omitempty"`

	// the running VM processes, in the order of their start
	VMs []VM `json:"vms,omitempty"`
	// the own cgroups of ended VM processes. Helpers of the emulator may still be in them.
	LeftCgroups []string `json:"leftCgroups,omitempty"`

	// LastEnd is the end of the last node-level VM process, nil while one runs.
	LastEnd *DomainEnd `json:"lastEnd,omitempty"`

	hungReported  bool // the heartbeat is late, and the tie has reported it
	leaseReported bool // a lease holds back a stop, and Why says so

	scanID   uint64 // the last requested scan
	scanning bool   // the result of this scan is outstanding, and no event has made it void
}

// Launcher identifies the launcher.
type Launcher struct {
	Pod       agentapi.PodRef       `json:"pod"`
	Container agentapi.ContainerRef `json:"container"`
	// of the container, below the root of the hierarchy
	Cgroup string `json:"cgroup,omitempty"`
	Group  uint64 `json:"group,omitempty"` // the tracker's number of this cgroup; 0: not tracked
	// the declared node-level libvirt domain, by name or UUID
	Domain string `json:"domain,omitempty"`
}

// Terms are the bounds and reactions for one launcher.
type Terms struct {
	// Enforce lets the agent stop VM processes. Otherwise it only reports each stop.
	Enforce bool `json:"enforce"`

	GracePeriod time.Duration `json:"gracePeriod"` // for the shutdown of the guest
	TermPeriod  time.Duration `json:"termPeriod"`  // between SIGTERM and SIGKILL
	// the greatest age of a heartbeat; 0: none is expected
	Watchdog time.Duration `json:"watchdog"`

	// stop a VM process started without a live pod or heartbeat
	StopUnattended bool `json:"stopUnattended"`
	StopHung       bool `json:"stopHung"` // stop the VM of a live launcher without heartbeat

	// ProofOnly protects the VM processes of each launcher that is not proven gone, also after a
	// stop has begun. These are the terms of the fence.
	ProofOnly bool `json:"-"`
}

// Heartbeat is the last heartbeat of a launcher.
type Heartbeat struct {
	Seen bool `json:"seen"` // there was a heartbeat
	// its time; before the first one: when the agent began to expect it
	At host.Boottime `json:"at"`
}

// Lease holds back each stop of a VM process, until it expires.
type Lease struct {
	Until  host.Boottime `json:"until"`
	Reason string        `json:"reason,omitempty"`
}

// VM is a VM process of the launcher.
type VM struct {
	host.Process
	Executable string `json:"executable"` // base name of the executed file
	// of the node's libvirt; nil: a process of the pod
	Domain    *Domain          `json:"domain,omitempty"`
	OwnCgroup string           `json:"ownCgroup,omitempty"` // the cgroup of this domain alone
	State     agentapi.VMState `json:"state"`
	Since     host.Boottime    `json:"since"` // the start of State
	Why       string           `json:"why,omitempty"`

	// Unattended is the reason for a stop under StopUnattended.
	Unattended string `json:"unattended,omitempty"`

	Stage Stage `json:"stage"`
	// the time of the next stage; from StageShutdown on
	Due host.Boottime `json:"due"`
	// in StageShutdown: the time of the next request to libvirt; 0: none was sent
	AskAgain host.Boottime `json:"askAgain,omitempty"`
	// in StageShutdown: the number of requests to libvirt
	Asks int `json:"asks,omitempty"`
	// in StageShutdown, one bit for each of the first requests, the first request in the lowest
	// bit: the failed requests, and those after which a retry is useless
	AskFailed uint8 `json:"askFailed,omitempty"`
	AskFinal  uint8 `json:"askFinal,omitempty"`
	// in StageShutdown: the request went to the pod, not to libvirt
	PodAsked bool `json:"byPod,omitempty"`
}

// Stage is the stage of the stop of a VM process.
type Stage int

// The stages of a stop, in their order.
const (
	StageNone     Stage = iota
	StageShutdown       // libvirt or the pod shuts down the guest, or may have begun to
	StageTerm           // the agent has sent SIGTERM
	StageKill           // the agent has sent SIGKILL
)

// killRetryPeriod is the time from one SIGKILL to the next. A process waiting for a device
// can take long to end.
const killRetryPeriod = 10 * time.Second

// askAgainPeriod is the time from one shutdown request to the next. It is not shorter than the
// longest call of libvirt, so there is one call at a time.
const askAgainPeriod = 10 * time.Second

// maxAskFails bounds the failed requests to libvirt, which may restart. Then the stop continues
// without libvirt.
const maxAskFails = 3

// New returns the tie of a new launcher.
func New(l Launcher, terms Terms, now host.Boottime) Tie {
	return Tie{
		Launcher: l, Terms: terms, Phase: agentapi.PhaseRegistered, Since: now,
		Heartbeat: Heartbeat{At: now},
	}
}

// clone copies the slices, which a step changes in place.
func (t Tie) clone() Tie {
	t.VMs, t.LeftCgroups = slices.Clone(t.VMs), slices.Clone(t.LeftCgroups)
	return t
}

// VM returns the VM of a process, nil if the tie has none. The caller may change it.
func (t *Tie) VM(p host.Process) *VM {
	at := slices.IndexFunc(t.VMs, func(v VM) bool { return v.Same(p) })
	if at < 0 {
		return nil
	}
	return &t.VMs[at]
}

func (t *Tie) leaseHolds(now host.Boottime) bool { return now < t.LastLease().Until }

// LastLease returns the lease that ends last.
func (t *Tie) LastLease() Lease {
	if t.PodLease.Until > t.Lease.Until {
		return t.PodLease
	}
	return t.Lease
}

// ExcuseHeartbeat gives the heartbeat its whole time again.
func (t *Tie) ExcuseHeartbeat(now host.Boottime) { t.Heartbeat.At = now }

// heartbeatExpired reports whether the last heartbeat is older than the terms allow.
func (t *Tie) heartbeatExpired(now host.Boottime) bool {
	return t.Terms.Watchdog > 0 && now.Sub(t.Heartbeat.At) > t.Terms.Watchdog
}

// lacksProof reports whether the terms require a proof of the launcher's end and there is none.
func (t *Tie) lacksProof() bool { return t.Terms.ProofOnly && t.LauncherGone == "" }

// Inactive returns the reason why the launcher may start no VM, empty for an active launcher. The
// caller checks the heartbeat.
func (t *Tie) Inactive() string {
	switch {
	case t.LauncherGone != "":
		return "its launcher has ended: " + t.LauncherGone
	case t.LauncherProcess == nil:
		return "the agent does not know its launcher process yet; try again"
	case t.StopRequested || t.StopConfirmed:
		return "the pod has requested the stop of its VM"
	case t.Phase == agentapi.PhaseDraining:
		return "the agent ends its VMs: " + t.Why
	}
	return ""
}

// draining reports whether the agent stops the VM processes, or has stopped them.
func (t *Tie) draining() bool {
	return t.Phase == agentapi.PhaseDraining || t.Phase == agentapi.PhaseDone
}

// Over reports whether the launcher and all its VM processes have ended.
func (t *Tie) Over() bool { return t.Phase == agentapi.PhaseDone && t.LauncherGone != "" }

// needsScan reports whether the tie drains without a known VM process and without an outstanding
// scan. A tie from the store has no outstanding scan.
func (t *Tie) needsScan() bool {
	return t.Phase == agentapi.PhaseDraining && len(t.VMs) == 0 && !t.scanning && !t.lacksProof()
}

// PendingScan returns the ID of the outstanding scan, 0 if there is none.
func (t *Tie) PendingScan() uint64 {
	if t.scanning {
		return t.scanID
	}
	return 0
}

// Due returns the time of the next step without an event. It returns false if there is none.
func (t *Tie) Due() (at host.Boottime, ok bool) {
	consider := func(b host.Boottime) {
		if !ok || b < at {
			at, ok = b, true
		}
	}
	for _, v := range t.VMs {
		if v.Stage != StageNone && !t.lacksProof() {
			consider(t.dueAt(&v))
		}
	}
	switch {
	case t.Over():
	case t.needsScan():
		consider(t.Since)
	case t.LastLease().Until > 0:
		consider(t.LastLease().Until)
	case t.canHang() && t.LauncherProcess != nil && !t.hungReported:
		consider(t.Heartbeat.At.Add(t.Terms.Watchdog) + 1)
	}
	return at, ok
}

// canHang reports whether a missing heartbeat of the launcher matters.
func (t *Tie) canHang() bool {
	return t.Terms.Watchdog > 0 && t.LauncherGone == "" && !t.draining() && !t.lacksProof()
}
