package agentapi

import "time"

// Phase is where a launcher and its VM processes are with each other. The state
// machine is in docs/explanation/lifecycle.md.
type Phase string

// The phases of a launcher.
const (
	PhaseRegistered Phase = "Registered" // no VM process yet, or none any more
	PhaseActive     Phase = "Active"     // at least one VM process runs
	PhaseDraining   Phase = "Draining"   // its VM processes are being stopped
	PhaseDone       Phase = "Done"       // they are gone, and no other may start
)

// VMState is where a VM process is in its life.
type VMState string

// The states of a VM process.
const (
	VMRunning  VMState = "Running"
	VMStopping VMState = "Stopping" // asked to end: the guest, then SIGTERM
	VMKilling  VMState = "Killing"  // sent SIGKILL
	VMGone     VMState = "Gone"     // the kernel says that it has ended
)

// VM is a process that runs an emulator for a launcher.
type VM struct {
	PID        int       `json:"pid"`              // in the agent's pid namespace
	StartTime  uint64    `json:"startTime"`        // clock ticks after boot, field 22 of proc_pid_stat(5)
	Executable string    `json:"executable"`       // base name of the executed file
	Domain     string    `json:"domain,omitempty"` // libvirt's name, of a node-level VM
	State      VMState   `json:"state"`
	Since      time.Time `json:"since"`         // when State was entered
	Why        string    `json:"why,omitempty"` // what led to State
}

// Heartbeat is the watchdog of a launcher that asks for one.
type Heartbeat struct {
	// Watchdog is how old a heartbeat may become, in seconds.
	Watchdog float64 `json:"watchdog"`

	// Age is how long ago the last one was seen, in seconds; nil: none was.
	Age *float64 `json:"age,omitempty"`

	// Expired is set once the age exceeds the watchdog.
	Expired bool `json:"expired,omitempty"`
}

// Lease holds back what the agent would do to a launcher's VM processes, until it
// expires.
type Lease struct {
	Reason string    `json:"reason"`
	Until  time.Time `json:"until"`
}
