package tie

import (
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// Input is an event of a launcher or of one of its processes. Each is an observation of the kernel,
// never a message alone.
type Input interface{ apply(t *Tie, s *step) }

// LauncherStarted is the start of the container. Process is its first process.
type LauncherStarted struct{ Process host.Process }

// LauncherEnded is the end of the launcher process.
type LauncherEnded struct {
	Proof string

	// LastSeen is the last known moment of the process's life if the end was not observed; 0: it
	// ended now. A second LauncherEnded with a later LastSeen corrects the first.
	LastSeen host.Boottime
}

// VMStarted is the start of a VM process of the launcher.
type VMStarted struct{ VM VM }

// VMEnded is the end of a VM process.
type VMEnded struct {
	Process host.Process
	How     string // exit code or signal; empty: unknown
}

// VMReassigned is the proof that a VM process belongs to another launcher.
type VMReassigned struct{ Process host.Process }

// StopRequested is the stop request of the pod.
type StopRequested struct{}

// HeartbeatSeen is a heartbeat of the launcher.
type HeartbeatSeen struct{}

// LeaseSet sets a lease from now on. A period of 0 ends the lease.
type LeaseSet struct {
	Period time.Duration
	Reason string

	// ByPod is set for the pod's own lease. The pod cannot shorten or end the other lease. The end
	// of the other lease also ends the pod's.
	ByPod bool
}

// AbsenceEnded is the end of a time in which the agent could not observe heartbeats, or the
// launcher could not give any.
type AbsenceEnded struct{}

// TimePassed comes at a due time: see [Tie.Due].
type TimePassed struct{}

// Scanned is the result of a scan. Found has the VM processes of the launcher. The agent has not
// observed their start, so they are never unattended for lack of a heartbeat.
type Scanned struct {
	ID    uint64 // of the [RequestScan]; 0: the scan had another cause
	Found []VM

	Emptied map[string]bool // cgroups without a process
}

// ActionFailed is the failure of an [Action].
type ActionFailed struct {
	Action Action
	Err    error

	// Final means that a retry is useless, because libvirt has no such domain.
	Final bool
}

// TermsChanged has the terms of a changed policy.
type TermsChanged struct{ Terms Terms }

// StopHandlerConnected is the arrival of a stop handler at the pod's socket.
type StopHandlerConnected struct{}

// StopHandlerDisconnected is the departure of the last stop handler.
type StopHandlerDisconnected struct {
	Wait time.Duration // the time for the handler to come back
}
