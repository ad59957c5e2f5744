package agentapi

import "time"

// MemlockSetting is the name of the [Setting] for RLIMIT_MEMLOCK; every other
// setting is named by its cgroup file.
const MemlockSetting = "memlock"

// State is where a launcher container is in its life.
type State string

// The states of a launcher. Refused launchers were never created.
const (
	StateCreating State = "Creating"
	StateCreated  State = "Created"
	StateRunning  State = "Running"
	StateStopped  State = "Stopped"
	StateRefused  State = "Refused"
)

// Launcher is a container that runs a VM, with what it asked for and what it
// got.
type Launcher struct {
	Pod       PodRef       `json:"pod"`
	Container ContainerRef `json:"container"`
	State     State        `json:"state"`
	Mode      string       `json:"mode"`               // policy mode the decision was made in: observe or enforce
	Rule      string       `json:"rule,omitempty"`     // policy rule that decided; empty: none matched
	Settings  []Setting    `json:"settings,omitempty"` // memlock first, then cgroup files by name
	Refusal   string       `json:"refusal,omitempty"`  // why it was refused, or would be in observe mode
	Notes     []string     `json:"notes,omitempty"`    // what else the user should know
	Since     time.Time    `json:"since"`              // when State was entered

	Phase      Phase     `json:"phase,omitempty"`
	PhaseSince time.Time `json:"phaseSince,omitzero"` // when Phase was entered
	Why        string    `json:"why,omitempty"`       // what led to Phase

	VMs       []VM       `json:"vms,omitempty"` // in the order of their start
	Heartbeat *Heartbeat `json:"heartbeat,omitempty"`
	Lease     *Lease     `json:"lease,omitempty"`
	Resize    *Resize    `json:"resize,omitempty"` // nil: the pod has told of none
	DryRun    *Resize    `json:"dryRun,omitempty"` // what the pod told last of a dry run; nil: nothing
}

// Status is how a setting fared.
type Status string

// The statuses of a setting.
const (
	StatusApplied     Status = "applied"     // the kernel shows what was given
	StatusDiffers     Status = "differs"     // the kernel shows something else
	StatusRepaired    Status = "repaired"    // it differed; the agent set it right
	StatusYielded     Status = "yielded"     // somebody else had set enough; left alone
	StatusObserved    Status = "observed"    // observe mode: nothing was set
	StatusRefused     Status = "refused"     // not allowed; nothing was set
	StatusPending     Status = "pending"     // given; not looked at in the kernel yet
	StatusIneffective Status = "ineffective" // set, but without effect (memory.low without its ancestors)
	StatusUnknown     Status = "unknown"     // the kernel could not be asked
)

// Setting is one thing that a launcher asked for, side by side with what became
// of it. Amounts of memory are quantities ("5Gi") or "unlimited"; cgroup values
// are as the kernel shows them. Empty means: none, or not known yet.
type Setting struct {
	Name      string `json:"name"`              // MemlockSetting or a cgroup file
	Requested string `json:"asked,omitempty"`   // by the annotations
	Allowed   string `json:"allowed,omitempty"` // by the policy: its ceiling
	Given     string `json:"given,omitempty"`   // to the runtime
	Observed  string `json:"seen,omitempty"`    // in the kernel
	Status    Status `json:"status"`
	Message   string `json:"message,omitempty"`
	Terms     []Term `json:"terms,omitempty"` // what Asked is the sum of, where it was computed
}

// Term is one summand of a computed amount.
type Term struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}
