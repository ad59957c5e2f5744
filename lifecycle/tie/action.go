package tie

import (
	"fmt"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// Action is an effect requested by [Step]. The caller executes the actions of a step in their
// order.
type Action interface{ action() }

// ShutdownByLibvirt asks libvirt to shut down the guest of a node-level VM.
type ShutdownByLibvirt struct {
	VM    VM
	Again bool // a booting or busy guest may have lost the request before
}

// ShutdownByPod asks the pod to shut down the guest.
type ShutdownByPod struct{ VM VM }

// Terminate sends SIGTERM.
type Terminate struct{ VM VM }

// Kill sends SIGKILL. If the VM has a cgroup of its own, Kill ends all processes in it, such as the
// helpers of the emulator.
type Kill struct{ VM VM }

// ConfirmStop confirms the end of the VM to the pod.
type ConfirmStop struct{}

// RequestScan asks for a scan of the launcher's VM processes. The result comes as [Scanned].
type RequestScan struct{ ID uint64 }

// CheckMemlock asks the guard to check a new VM process.
type CheckMemlock struct{ VM VM }

// Report writes an Event.
type Report struct {
	Type    agentapi.EventType
	Reason  agentapi.Reason
	Message string // without pids, so that Kubernetes counts equal Events as one
	PID     int    // of the process in question; 0: none
}

func (ShutdownByLibvirt) action() {}
func (ShutdownByPod) action()     {}
func (Terminate) action()         {}
func (Kill) action()              {}
func (ConfirmStop) action()       {}
func (RequestScan) action()       {}
func (CheckMemlock) action()      {}
func (Report) action()            {}

// step collects the actions of one [Step].
type step struct {
	now     host.Boottime
	actions []Action
}

func (s *step) act(a Action) { s.actions = append(s.actions, a) }

func (s *step) warn(reason agentapi.Reason, pid int, format string, args ...any) {
	s.act(Report{
		Type: agentapi.Warning, Reason: reason, PID: pid, Message: fmt.Sprintf(format, args...),
	})
}

func (s *step) note(reason agentapi.Reason, pid int, format string, args ...any) {
	s.act(Report{
		Type: agentapi.Normal, Reason: reason, PID: pid, Message: fmt.Sprintf(format, args...),
	})
}
