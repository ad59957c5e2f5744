package tie

import (
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// Input is something that happened to a launcher or to one of its processes. Each
// is the outcome of a look at the kernel, never of a message alone.
type Input interface{ apply(t *Tie, s *step) }

// LauncherStarted says that the container runs, and which is its first process.
type LauncherStarted struct{ Process host.Process }

// LauncherEnded says that the owner is proven gone.
type LauncherEnded struct {
	Proof string

	// LastSeen is the last moment that it is known to have lived at, where nobody
	// saw it end; 0: somebody saw it just now. Who learns later that it lived
	// longer says so again.
	LastSeen host.Boottime
}

// VMStarted says that a process of the launcher runs an emulator.
type VMStarted struct{ VM VM }

// VMEnded says that a process has ended.
type VMEnded struct {
	Process host.Process
	How     string // exit code or signal, where it is known
}

// StopRequested says that the pod asks for its VM to be stopped.
type StopRequested struct{}

// HeartbeatSeen says that the launcher's heartbeat was seen.
type HeartbeatSeen struct{}

// LeaseSet says that somebody asks for patience. A lease that is over already ends
// the one there was.
type LeaseSet struct {
	Period time.Duration
	Reason string

	// ByPod is set if the pod itself asks. Its lease is one beside the other's: the pod
	// cannot shorten nor end that, but who ends that ends the pod's, too.
	ByPod bool
}

// AbsenceEnded says that nobody could see heartbeats for a while, or give any.
type AbsenceEnded struct{}

// TimePassed says that time has passed.
type TimePassed struct{}

// Scanned says what VM processes a look at the launcher has found. Nobody saw them
// start, so a heartbeat that was not seen then proves nothing.
type Scanned struct {
	ID    uint64 // the [RequestScan] that asked for it, 0: nobody did
	Found []VM
}

// ActionFailed says that an [Action] could not be carried out.
type ActionFailed struct {
	Action Action
	Err    error
}

// TermsChanged says that other terms hold, because the policy has changed.
type TermsChanged struct{ Terms Terms }
