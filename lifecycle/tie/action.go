package tie

import (
	"fmt"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// Action is something that [Step] wants done. Actions are carried out in their
// order, and outside of Step.
type Action interface{ action() }

// ShutdownByLibvirt has libvirt ask the guest of a node-level VM to shut down.
type ShutdownByLibvirt struct{ VM VM }

// Terminate sends SIGTERM.
type Terminate struct{ VM VM }

// Kill sends SIGKILL. Where the VM has a cgroup of its own, everything in it is
// killed: helpers of the emulator end with it.
type Kill struct{ VM VM }

// ConfirmStop tells the pod that its VM is gone.
type ConfirmStop struct{}

// Scan asks for a look at what is left of the launcher, of which [Scanned] tells.
type RequestScan struct{ ID uint64 }

// CheckMemlock has the guard look at a VM process that has just started.
type CheckMemlock struct{ VM VM }

// Report tells people.
type Report struct {
	Type    agentapi.EventType
	Reason  agentapi.Reason
	Message string // without pids, so that equal events are counted as one
	PID     int    // of the process that it is about; 0: none
}

func (ShutdownByLibvirt) action() {}
func (Terminate) action()         {}
func (Kill) action()              {}
func (ConfirmStop) action()       {}
func (RequestScan) action()       {}
func (CheckMemlock) action()      {}
func (Report) action()            {}

// step collects what is to be done.
type step struct {
	now     host.Boottime
	actions []Action
}

func (s *step) act(a Action) { s.actions = append(s.actions, a) }

func (s *step) report(kind agentapi.EventType, reason agentapi.Reason, pid int, format string, args ...any) {
	s.act(Report{Type: kind, Reason: reason, PID: pid, Message: fmt.Sprintf(format, args...)})
}
