// Package podapi is what the agent serves to a pod, on a socket of the pod's own: JSON
// over HTTP/1.1. docs/reference/pod-socket.md describes it for those who write a client.
//
// The socket is the pod: nothing in a request says which one is meant. Requests are read
// strictly: a field that is not known, a number out of range or anything after the body
// is an error that names it. The Check methods are pure.
package podapi

// Socket is where the launcher, and each container that mounts the pod's directory,
// finds the agent.
const Socket = "/run/mooring/agent.sock"

// ReportFile is where a pod finds what it reported last.
const ReportFile = "/run/mooring/resize.json"

// Paths of the resources.
const (
	PathObserved          = "/v1/seen"    // GET: [Seen]
	PathLock              = "/v1/lock"    // PUT: [Lock], answered with [Seen]
	PathMemoryRequirement = "/v1/need"    // PUT: [Need]
	PathHold              = "/v1/hold"    // PUT: [Hold]; DELETE
	PathLease             = "/v1/lease"   // PUT: [Lease]; DELETE
	PathDesired           = "/v1/wanted"  // GET: [Desired]
	PathChanges           = "/v1/changes" // GET: a stream of [Change], one a line
	PathReport            = "/v1/report"  // PUT: [Report]
)

// Bounds of what is sent, in bytes.
const (
	MaxHeader  = 4 << 10
	MaxRequest = 4 << 10
	MaxReport  = 16 << 10
	MaxAnswer  = 64 << 10
)

// Seen is what the kernel shows of a pod, its launcher and its VM process.
type Observed struct {
	// PodMax and ContainerMax are memory.max of the pod's cgroup and of its launcher's.
	// Where there is no such file, as without memory controller, there is no limit.
	PodMax       Amount `json:"podMax"`
	ContainerMax Amount `json:"containerMax"`

	// Lock is the soft RLIMIT_MEMLOCK of the VM process, and Locked what it has locked:
	// VmLck and VmPin together. Both are 0 while no VM process runs.
	Lock   Amount `json:"lock"`
	Locked Amount `json:"locked"`

	// Floor is what Lock cannot be lowered below: what the launcher was given. Ceiling
	// is what it cannot be raised above; the node may have less.
	Floor   Amount `json:"floor"`
	Ceiling Amount `json:"ceiling"`

	// Room is how much memory the node has yet for this pod.
	Available Amount `json:"room"`

	// VM is the pid of the VM process on the node; 0: none runs.
	VM int `json:"vm,omitempty"`
}

// Lock asks for another memory lock of the VM process, soft and hard. Exactly one field
// is set: AtLeast raises what is lower, AtMost lowers what is higher.
type Lock struct {
	AtLeast *Amount `json:"atLeast,omitempty"`
	AtMost  *Amount `json:"atMost,omitempty"`
}

// Need says what the memory limit of the launcher has to be at least, as long as the VM
// process runs; 0: it may be anything.
type RequireMemory struct {
	Bytes *Amount `json:"bytes"`
}

// Hold keeps leases, and with them migrations, from beginning for that long, from now.
type Hold struct {
	Seconds int64 `json:"seconds"`
}

// Lease holds back, for that long from now, what the agent would do to the pod's VM
// process without the pod asking: for a migration, in which a launcher may fall silent.
type Lease struct {
	Seconds int64  `json:"seconds"`
	Reason  string `json:"reason"` // in one line; it is shown to people
}

// What a [Change] is about.
const (
	ChangedObserved = "seen"
	ChangedDesired  = "wanted"
	ChangedNone     = "none" // the connection is there
)

// Change is a hint that something may be otherwise than before.
type Change struct {
	Changed    string `json:"changed"`
	Generation uint64 `json:"generation"` // of what is wanted now
}

// Codes of an [Error], for programs.
const (
	CodeInvalid   = "invalid"   // 400: the request makes no sense
	CodeTooLarge  = "tooLarge"  // 413
	CodeNotFound  = "notFound"  // 404: no such resource
	CodeRefused   = "refused"   // 403: the node's policy does not allow it
	CodeNoVM      = "noVM"      // 409: no VM process of the pod runs
	CodeLocked    = "locked"    // 409: the VM process has more locked
	CodeMigrating = "migrating" // 409: the VM is being migrated
	CodeHeld      = "held"      // 409: the VM is being resized
	CodeBusy      = "busy"      // 429: too many requests; try again
	CodeStarting  = "starting"  // 503: the agent does not know the pod yet; try again
	CodeFailed    = "failed"    // 500: the kernel could not be asked
)

// Error is the body of an answer that is no 200.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}
