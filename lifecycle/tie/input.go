package tie

import (
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// Input is an event of a launcher or of one of its processes. Each is an observation of the kernel,
// never a message alone.
type Input interface{ apply(t *Tie, s *step) }

// LauncherStarted means that the container runs. Process is its first process.
type LauncherStarted struct{ Process host.Process }

// LauncherEnded means that the launcher process has ended.
type LauncherEnded struct {
	Proof string

	// LastSeen is the last known moment of the process's life if the end was not observed; 0: it
	// ended now. A second LauncherEnded with a later LastSeen corrects the first.
	LastSeen host.Boottime
}

// VMStarted means that a process of the launcher executes an emulator.
type VMStarted struct{ VM VM }

// VMEnded means that a VM process has ended.
type VMEnded struct {
	Process host.Process
	How     string // exit code or signal; empty: unknown
}

// StopRequested means that the pod requests the stop of its VM.
type StopRequested struct{}

// HeartbeatSeen means that the launcher has given a heartbeat.
type HeartbeatSeen struct{}

// LeaseSet sets a lease from now on. A period of 0 ends the lease.
type LeaseSet struct {
	Period time.Duration
	Reason string

	// ByPod is set for the pod's own lease. The pod cannot shorten or end the other lease. The end
	// of the other lease also ends the pod's.
	ByPod bool
}

// AbsenceEnded means that for a while the agent could not observe heartbeats, or the launcher could
// not give any.
type AbsenceEnded struct{}

// TimePassed means that a due time was reached: see [Tie.Due].
type TimePassed struct{}

// Scanned has the VM processes that a scan has found. Their start was not observed, so a heartbeat
// that was missing then proves nothing.
type Scanned struct {
	ID    uint64 // of the [RequestScan]; 0: the scan had another cause
	Found []VM
}

// ActionFailed means that an [Action] failed.
type ActionFailed struct {
	Action Action
	Err    error
}

// TermsChanged has the terms of a changed policy.
type TermsChanged struct{ Terms Terms }

// StopHandlerConnected means that a stop handler has connected to the pod's socket.
type StopHandlerConnected struct{}

// StopHandlerDisconnected means that the pod has no stop handler any more.
type StopHandlerDisconnected struct {
	Wait time.Duration // the time that the handler has to come back
}
