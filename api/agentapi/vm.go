package agentapi

import "time"

// Phase is the state of a tie: of a launcher and its VM processes together.
// docs/explanation/lifecycle.md has the state machine.
type Phase string

// The phases of a launcher.
const (
	PhaseRegistered Phase = "Registered" // no VM process yet, or none any more
	PhaseActive     Phase = "Active"     // at least one VM process runs
	PhaseDraining   Phase = "Draining"   // the agent is stopping its VM processes
	PhaseDone       Phase = "Done"       // all VM processes are gone, and no other may start
)

// VMState is the state of a VM process.
type VMState string

// The states of a VM process.
const (
	VMRunning  VMState = "Running"
	VMStopping VMState = "Stopping" // asked to end: guest shutdown, then SIGTERM
	VMKilling  VMState = "Killing"  // SIGKILL was sent
	VMGone     VMState = "Gone"     // the kernel has reported the end
)

// VM is a VM process of a launcher.
type VM struct {
	PID int `json:"pid"` // in the agent's pid namespace
	// clock ticks after boot, field 22 of proc_pid_stat(5)
	StartTime  uint64    `json:"startTime"`
	Executable string    `json:"executable"`       // base name of the executable
	Domain     string    `json:"domain,omitempty"` // libvirt's name of a node-level VM
	State      VMState   `json:"state"`
	Since      time.Time `json:"since"`           // start of State
	Why        string    `json:"why,omitempty"`   // cause of State
	Usage      *Usage    `json:"usage,omitempty"` // latest sample; nil: none yet
}

// PinnedPer says which pinned pages the kernel adds up and compares with the memory-lock limit of a
// VM process.
type PinnedPer string

// The pages that the kernel adds up.
const (
	PerProcess PinnedPer = "process" // pages of the process
	PerUser    PinnedPer = "user"    // pages of all processes of the user: iommufd's default
	// PerEither is of a process with locked memory beside iommufd, as with libvirt's <locked/>.
	// VmLck then covers VmPin in either case.
	PerEither  PinnedPer = "process or user"
	PerUnknown PinnedPer = "unknown" // the agent cannot see whether the process uses iommufd
)

// Usage is the use of the node by a VM process.
type Usage struct {
	Memory int64 `json:"memory"` // resident, in bytes: VmRSS of proc_pid_status(5)
	Locked int64 `json:"locked"` // by mlock(2) and VFIO, in bytes: VmLck
	Pinned int64 `json:"pinned"` // by RDMA, vDPA and iommufd, in bytes: VmPin
	// empty: nothing is pinned, or CAP_IPC_LOCK frees the process from the limit
	PinnedPer PinnedPer `json:"pinnedPer,omitempty"`
	// thousandths of a CPU between the two latest samples; nil after the first one
	CPU *int64 `json:"cpu,omitempty"`
}

// Heartbeat is the heartbeat of a launcher with a watchdog.
type Heartbeat struct {
	// Watchdog is the highest allowed age of a heartbeat, in seconds.
	Watchdog float64 `json:"watchdog"`

	// Age is the age of the latest heartbeat, in seconds; nil: there was none.
	Age *float64 `json:"age,omitempty"`

	// Expired is set once the age exceeds the watchdog.
	Expired bool `json:"expired,omitempty"`
}

// Lease prevents the agent from stopping a launcher's VM processes until it expires.
type Lease struct {
	Reason string    `json:"reason"`
	Until  time.Time `json:"until"`
}
