package agentapi

import (
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
)

// MemlockSetting is the name of the [Setting] for RLIMIT_MEMLOCK. The name of every other setting
// is its cgroup file.
const MemlockSetting = "memlock"

// State is the state of a launcher container.
type State string

// The states of a launcher. A refused launcher was never created.
const (
	StateCreating State = "Creating"
	StateCreated  State = "Created"
	StateRunning  State = "Running"
	StateStopped  State = "Stopped"
	StateRefused  State = "Refused"
)

// Launcher is a container that runs a VM, with its requests and their results.
type Launcher struct {
	Pod       PodRef       `json:"pod"`
	Container ContainerRef `json:"container"`
	State     State        `json:"state"`
	// policy mode of the decision: observe or enforce
	Mode string `json:"mode"`
	// policy rule of the decision; empty: none matched
	Rule     string    `json:"rule,omitempty"`
	Settings []Setting `json:"settings,omitempty"` // memlock first, then cgroup files by name
	// reason of the refusal; in observe mode: of enforce mode
	Refusal string    `json:"refusal,omitempty"`
	Notes   []string  `json:"notes,omitempty"` // further remarks for the user
	Since   time.Time `json:"since"`           // start of State

	// in the latest request to the runtime; 0: none
	Limits podapi.Limits `json:"limits,omitzero"`

	// Facts of the decision. Nil in the state of a node, where readers have the pod itself.
	Facts *Facts `json:"facts,omitempty"`

	Phase      Phase     `json:"phase,omitempty"`
	PhaseSince time.Time `json:"phaseSince,omitzero"` // start of Phase
	Why        string    `json:"why,omitempty"`       // cause of Phase

	VMs       []VM       `json:"vms,omitempty"` // in the order of their start
	Heartbeat *Heartbeat `json:"heartbeat,omitempty"`
	Lease     *Lease     `json:"lease,omitempty"`
	Resize    *Resize    `json:"resize,omitempty"` // latest report of a resize; nil: none
	DryRun    *Resize    `json:"dryRun,omitempty"` // latest report of a dry run; nil: none
}

// Status is the result of a setting.
type Status string

// The statuses of a setting.
const (
	StatusApplied  Status = "applied"  // the kernel shows the given value
	StatusDiffers  Status = "differs"  // the kernel shows another value
	StatusRepaired Status = "repaired" // the value differed, and the agent repaired it
	StatusYielded  Status = "yielded"  // the limit was high enough already; the agent left it
	StatusObserved Status = "observed" // observe mode: the agent set nothing
	StatusRefused  Status = "refused"  // the policy does not allow it; the agent set nothing
	// given to the runtime; the agent has not read the kernel's value yet
	StatusPending Status = "pending"
	// set without effect (memory.low without its ancestors)
	StatusIneffective Status = "ineffective"
	StatusUnknown     Status = "unknown" // the agent could not read the kernel's value
)

// Setting is one request of a launcher with its result. Amounts of memory are quantities ("5Gi") or
// "unlimited", in cgroup files too. Other values of cgroup files have the kernel's form. An empty
// text is no value, or a value that the agent has not read yet.
type Setting struct {
	Name      string `json:"name"`              // MemlockSetting or a cgroup file
	Requested string `json:"asked,omitempty"`   // by the annotations
	Allowed   string `json:"allowed,omitempty"` // ceiling of the policy
	Given     string `json:"given,omitempty"`   // to the runtime
	Observed  string `json:"seen,omitempty"`    // in the kernel
	Status    Status `json:"status"`
	Message   string `json:"message,omitempty"`
	Terms     []Term `json:"terms,omitempty"` // summands of a computed Requested
}

// Term is one summand of a computed amount.
type Term struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}
