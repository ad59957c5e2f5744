// Package policy reads the node policy: the file in which the owner of a node limits the requests
// of pod annotations.
//
// Pod annotations are user input. A pod without a matching rule gets no settings. The file is
// strict YAML: unknown fields, duplicate keys and values out of range are errors with the field's
// name. docs/reference/policy.md describes it for users.
//
// A Policy does not change after Parse. Its methods are pure, do not block and may be called from
// several goroutines at once.
package policy

// APIVersion and Kind stand at the head of every policy file.
const (
	APIVersion = "mooring.dev/v1alpha1"
	Kind       = "NodePolicy"
)

// Mode says whether the agent acts.
type Mode string

// The modes. Observe is the default: the agent changes nothing, and reports each limit that it
// would set or refuse.
const (
	Observe Mode = "observe"
	Enforce Mode = "enforce"
)

// Observing begins every report of a decision that mode observe does not carry out.
const Observing = "observe mode, nothing is done: "

// Repair is the agent's reaction to a launcher with less lockable memory than the agent gave it.
type Repair string

// The repairs. Report is the default.
const (
	RepairReport  Repair = "report"  // Event and metric only
	RepairPrlimit Repair = "prlimit" // also raise the limit of its processes
)

// Policy is a node's policy.
type Policy struct {
	Mode      Mode
	Memlock   NodeMemlock
	Lifecycle Lifecycle
	Headroom  Headroom
	Profiles  []Profile // in the file's order
	Rules     []Rule    // in the file's order: the first that matches decides
}

// NodeMemlock bounds the locked memory of the node as a whole.
type NodeMemlock struct {
	NodeMax int64 // bytes; ceiling for the sum over all launchers; 0: none
	Repair  Repair

	// RequireMemoryLimit refuses a memory lock to a launcher without memory limit.
	RequireMemoryLimit bool
}

// Headroom is the default range for the growth of the node's VMs. VMs start with room for it; it is
// not a limit.
type Headroom struct {
	Memory int64 // bytes, whole MiB; 0: the node's memory
	CPUs   int   // vCPUs; 0: the node's CPUs
}

// Profile recognises launcher pods that carry no launcher annotation.
type Profile struct {
	Name      string
	PodLabels map[string]string // all of them must be on the pod; never empty
	Container string            // the container that runs the VM
}

// Rule limits the requests of the pods that it matches.
type Rule struct {
	Name            string
	Namespaces      []string // globs as in path.Match; never empty
	ServiceAccounts []string // globs as in path.Match; empty: any
	Memlock         PodMemlock
	Resize          Resize
	CgroupFiles     []string // exact names, sorted
	// globs as in path.Match: domains of the node's libvirt that a pod may bind
	Domains []string
}

// PodMemlock is the locked memory that one pod may ask for. The zero value allows none.
type PodMemlock struct {
	Max       int64 // bytes; ceiling for a finite limit; math.MaxInt64: none
	Unlimited bool  // pods with a memory limit may ask for "unlimited"
}
