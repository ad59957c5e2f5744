package tie

import (
	"slices"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// Tie is what one launcher container and its VM processes are to each other. It is
// a value: [Step] makes the next one out of it, and says what is to be done.
//
//	Registered <--VM starts / last one ends--> Active
//	    |                                        |
//	    +------------- stop has a reason --------+
//	                       v
//	                   Draining --nothing of it is left--> Done
//
// Reasons are: the pod asks for it, the owner is proven gone, or the launcher hangs
// and the terms say stop. Each VM process goes Running, Stopping, Killing, Gone.
type Tie struct {
	Launcher Launcher `json:"launcher"`
	Terms    Terms    `json:"terms"`

	Phase agentapi.Phase `json:"phase"`
	Why   string         `json:"why,omitempty"` // what led to Phase
	Since host.Boottime  `json:"since"`

	// LauncherProcess is the first process of the container, nil until it is known.
	LauncherProcess *host.Process `json:"owner,omitempty"`

	// LauncherGone is the proof that the owner has ended; empty: there is none.
	LauncherGone   string        `json:"ownerGone,omitempty"`
	LauncherGoneAt host.Boottime `json:"ownerGoneAt,omitempty"` // when it had; where that is not known, when it lived yet

	// AliveAt is when the owner was known to live: now and then, and only of a
	// launcher that declares a domain.
	AliveAt host.Boottime `json:"aliveAt,omitempty"`

	// StopRequested is set from the pod's request until it is confirmed, StopDone from
	// then on.
	StopRequested bool `json:"stopAsked,omitempty"`
	StopConfirmed bool `json:"stopDone,omitempty"`

	StopHandler StopHandler `json:"taker,omitzero"`

	Heartbeat Heartbeat `json:"beat"`
	Lease     Lease     `json:"lease"`
	PodLease  Lease     `json:"podLease,omitzero"` // that the pod itself has asked for
	VMs       []VM      `json:"vms,omitempty"`     // in the order of their start; those that are gone are not in it

	hungReported  bool // since the last heartbeat
	leaseReported bool // that a lease holds a stop back

	scanID   uint64 // the look for what is left that was asked for last
	scanning bool   // its outcome is awaited, and will still be true
}

// Launcher names the launcher for people and for what is done to it.
type Launcher struct {
	Pod       agentapi.PodRef       `json:"pod"`
	Container agentapi.ContainerRef `json:"container"`
	Cgroup    string                `json:"cgroup,omitempty"` // of the container, below the root of the hierarchy
	Group     uint64                `json:"group,omitempty"`  // see [supervisor.Tracker]; 0: the cgroup is not known
	Domain    string                `json:"domain,omitempty"` // declared node-level libvirt domain, by name or UUID
}

// Terms are the bounds and reactions that hold for one launcher.
type Terms struct {
	// Enforce has VM processes stopped. Otherwise it is only told that they
	// would be.
	Enforce bool `json:"enforce"`

	GracePeriod time.Duration `json:"gracePeriod"` // for a guest to shut down
	TermPeriod  time.Duration `json:"termPeriod"`  // between SIGTERM and SIGKILL
	Watchdog    time.Duration `json:"watchdog"`    // how old a heartbeat may be; 0: none is expected

	StopUnattended bool `json:"stopUnattended"` // a VM process that starts without a live pod or heartbeat
	StopHung       bool `json:"stopHung"`       // the launcher lives, its heartbeat does not

	// ProofOnly has nothing done to the VM processes of a launcher that is not
	// proven gone, whatever was begun before: the fence's terms.
	ProofOnly bool `json:"-"`
}

// Heartbeat is a launcher's last heartbeat.
type Heartbeat struct {
	Seen bool          `json:"seen"` // there was one
	At   host.Boottime `json:"at"`   // when it was seen; before the first: since when one is expected
}

// Lease holds back all that the pod does not ask for itself, until it expires.
type Lease struct {
	Until  host.Boottime `json:"until"`
	Reason string        `json:"reason,omitempty"`
}

// VM is a process that runs an emulator for the launcher.
type VM struct {
	host.Process
	Executable string           `json:"executable"`       // base name of the executed file
	Domain     *Domain          `json:"domain,omitempty"` // of a node-level libvirt; nil: a process of the pod
	OwnCgroup  string           `json:"ownCgroup,omitempty"`
	State      agentapi.VMState `json:"state"`
	Since      host.Boottime    `json:"since"`
	Why        string           `json:"why,omitempty"`

	// Unattended is why it is to be stopped where the terms say so.
	Unattended string `json:"unattended,omitempty"`

	Stage    Stage         `json:"stage"`           // how far its end is
	Due      host.Boottime `json:"due"`             // when the next stage is entered; only from StageShutdown on
	PodAsked bool          `json:"byPod,omitempty"` // in StageShutdown: its pod is asked, and libvirt is not
}

// Stage is how far the end of a VM process is.
type Stage int

// The stages of an end, in their order.
const (
	StageNone     Stage = iota
	StageShutdown       // the guest has been asked, or may have been: by libvirt or by its pod
	StageTerm           // SIGTERM was sent
	StageKill           // SIGKILL was sent
)

// killRetryPeriod is how long a process may take to end after SIGKILL before it is
// told of, and sent the signal again: it waits for a device.
const killRetryPeriod = 10 * time.Second

// New returns the tie of a launcher that has been registered.
func New(m Launcher, terms Terms, now host.Boottime) Tie {
	return Tie{Launcher: m, Terms: terms, Phase: agentapi.PhaseRegistered, Since: now, Heartbeat: Heartbeat{At: now}}
}

// clone copies what steps change in place.
func (t Tie) clone() Tie {
	t.VMs = slices.Clone(t.VMs)
	return t
}

// VM returns the VM that is this process, for change.
func (t *Tie) VM(p host.Process) *VM {
	at := slices.IndexFunc(t.VMs, func(v VM) bool { return v.Same(p) })
	if at < 0 {
		return nil
	}
	return &t.VMs[at]
}

// leaseHolds reports whether a lease holds.
func (t *Tie) leaseHolds(now host.Boottime) bool { return now < t.LastLease().Until }

// LastLease returns the lease that ends last.
func (t *Tie) LastLease() Lease {
	if t.PodLease.Until > t.Lease.Until {
		return t.PodLease
	}
	return t.Lease
}

// heartbeatExpired reports whether the launcher has missed its heartbeat.
func (t *Tie) heartbeatExpired(now host.Boottime) bool {
	return t.Terms.Watchdog > 0 && now.Sub(t.Heartbeat.At) > t.Terms.Watchdog
}

// lacksProof reports whether the launcher's VM processes must be left alone.
func (t *Tie) lacksProof() bool { return t.Terms.ProofOnly && t.LauncherGone == "" }

// draining reports whether the VM processes are being stopped, or were.
func (t *Tie) draining() bool {
	return t.Phase == agentapi.PhaseDraining || t.Phase == agentapi.PhaseDone
}

// Over reports whether nothing is left to be done: the launcher and all its VM
// processes are gone.
func (t *Tie) Over() bool { return t.Phase == agentapi.PhaseDone && t.LauncherGone != "" }

// needsScan reports whether nothing is known to be left while the launcher drains, and
// no look is under way that will show it. One of a tie that was stored never is.
func (t *Tie) needsScan() bool {
	return t.Phase == agentapi.PhaseDraining && len(t.VMs) == 0 && !t.scanning && !t.lacksProof()
}

// Due returns when the tie wants to be stepped again although nothing happens.
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
	case t.Terms.Watchdog > 0 && t.LauncherProcess != nil && t.LauncherGone == "" && !t.hungReported && !t.draining() && !t.lacksProof():
		consider(t.Heartbeat.At.Add(t.Terms.Watchdog) + 1)
	}
	return at, ok
}

// PendingScan returns the look that is asked for and was not taken yet.
func (t *Tie) PendingScan() uint64 {
	if t.scanning {
		return t.scanID
	}
	return 0
}
