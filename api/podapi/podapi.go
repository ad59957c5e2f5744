// Package podapi is the API of the agent for pods: JSON over HTTP/1.1 on a socket in the directory
// of each pod. docs/reference/pod-socket.md describes it for authors of clients.
//
// The socket identifies the pod: no request names one. The agent reads requests strictly. An
// unknown field, a number out of range and data after the body are errors that name it. The Check
// methods are pure.
package podapi

// Socket is the agent's socket in the launcher, and in each container that mounts the pod's
// directory.
const Socket = "/run/mooring/agent.sock"

// ReportFile is the copy of the latest report in the pod's directory.
const ReportFile = "/run/mooring/resize.json"

// Paths of the resources.
const (
	PathObserved          = "/v1/seen"    // GET: [Observed]
	PathLock              = "/v1/lock"    // PUT: [Lock]; the answer is [Observed]
	PathMemoryRequirement = "/v1/need"    // PUT: [MemoryRequirement]
	PathHold              = "/v1/hold"    // PUT: [Hold]; DELETE
	PathLease             = "/v1/lease"   // PUT: [Lease]; DELETE
	PathDesired           = "/v1/wanted"  // GET: [Desired]
	PathChanges           = "/v1/changes" // GET: a stream of [Change], one per line
	PathReport            = "/v1/report"  // PUT: [Report]
)

// Size limits of messages, in bytes.
const (
	MaxHeader  = 4 << 10
	MaxRequest = 4 << 10
	MaxReport  = 16 << 10
	MaxAnswer  = 64 << 10
)

// Observed is the current state of a pod, its launcher and its VM process, as the kernel shows it.
type Observed struct {
	// PodMax and ContainerMax are memory.max of the cgroups of the pod and of its launcher. Without
	// the file, as without memory controller, there is no limit.
	PodMax       Amount `json:"podMax"`
	ContainerMax Amount `json:"containerMax"`

	// Lock is the soft RLIMIT_MEMLOCK of the VM process. Locked is its locked memory: the
	// larger of VmLck and VmPin. Both are 0 while no VM process runs.
	Lock   Amount `json:"lock"`
	Locked Amount `json:"locked"`

	// Floor is the lowest possible Lock: the limit that the agent gave the launcher. Ceiling is the
	// highest Lock that the policy allows; the node may have less memory.
	Floor   Amount `json:"floor"`
	Ceiling Amount `json:"ceiling"`

	// Available is the memory that the node has left for this pod.
	Available Amount `json:"room"`

	// VM is the pid of the VM process on the node; 0: none runs.
	VM int `json:"vm,omitempty"`

	// VMStart is the start time of the VM process in clock ticks after the node's boot. Together
	// with VM it identifies one start of the VM.
	VMStart uint64 `json:"vmStart,omitempty"`
}

// Lock asks for another memory-lock limit of the VM process, soft and hard. Exactly one field is
// set: AtLeast raises a lower limit, AtMost lowers a higher one.
type Lock struct {
	AtLeast *Amount `json:"atLeast,omitempty"`
	AtMost  *Amount `json:"atMost,omitempty"`
}

// MemoryRequirement is the lowest memory limit that the launcher may have while the VM process
// runs; 0: any limit.
type MemoryRequirement struct {
	Bytes *Amount `json:"bytes"`
}

// Hold prevents new leases, and so new migrations, for this time from now.
type Hold struct {
	Seconds int64 `json:"seconds"`

	// Growth is the memory that the resize adds to the VM. The agent reserves it against the
	// resizes of other pods while the hold lasts.
	Growth Amount `json:"growth,omitempty"`
}

// Lease prevents the agent from stopping the pod's VM process without a request of the pod, for
// this time from now. It covers a migration, during which a launcher may miss heartbeats.
type Lease struct {
	Seconds int64  `json:"seconds"`
	Reason  string `json:"reason"` // one line of text for people
}

// Kinds of a [Change].
const (
	ChangedObserved = "seen"
	ChangedDesired  = "wanted"
	ChangedNone     = "none" // keep-alive: no change
)

// Change is a hint that a resource may have changed.
type Change struct {
	Changed    string `json:"changed"`
	Generation uint64 `json:"generation"` // of the current [Desired]
}

// Codes of an [Error], for programs.
const (
	CodeInvalid   = "invalid"   // 400: the agent cannot read the request
	CodeTooLarge  = "tooLarge"  // 413
	CodeNotFound  = "notFound"  // 404: no such resource
	CodeRefused   = "refused"   // 403: the node's policy does not allow it
	CodeNoVM      = "noVM"      // 409: no VM process of the pod runs
	CodeLocked    = "locked"    // 409: the VM process has locked more than the requested limit
	CodeMigrating = "migrating" // 409: a migration of the VM is under way
	CodeHeld      = "held"      // 409: a resize of the VM is under way
	CodeNoMemory  = "noMemory"  // 409: the node has too little memory beside other resizes
	CodeBusy      = "busy"      // 429: too many requests; try again
	CodeStarting  = "starting"  // 503: the agent does not know the pod yet; try again
	CodeFailed    = "failed"    // 500: the agent could not read the kernel's state
)

// Error is the body of each answer with a status other than 200.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}
