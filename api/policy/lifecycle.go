package policy

import "time"

// Lifecycle says how VM processes are known, and what is done about those that
// outlive what they belong to. Parse fills in the defaults.
type Lifecycle struct {
	// Emulators are the base names of the executed files that run VMs, in the
	// file's order; never empty.
	Emulators []string

	// GracePeriod is how long a guest gets to shut down where the pod does not
	// say, TermPeriod how long its process gets between SIGTERM and SIGKILL.
	// Both are whole seconds, > 0.
	GracePeriod, TermPeriod time.Duration

	// MaxGracePeriod is the longest that a pod may ask for, in whole seconds, and no
	// shorter than GracePeriod.
	MaxGracePeriod time.Duration

	Unattended Reaction // to a VM process that starts without a live pod or heartbeat
	Hung       Reaction // to a launcher that lives while its heartbeat does not

	// FenceAfter is how long the agent may be away before the fence acts, in
	// whole seconds; 0: the fence never acts.
	FenceAfter time.Duration

	Libvirt *Libvirt // of the node, for VMs outside of pods; nil: none
}

// Reaction says what to do with VM processes that should not run.
type Reaction string

// The reactions. Report is the default.
const (
	ReactionReport Reaction = "report" // Event and metric only
	ReactionStop   Reaction = "stop"   // also stop them
)

// Libvirt says where the libvirt of the node is. Both are absolute paths.
type Libvirt struct {
	Records string // directory in which it keeps an XML file for each running domain
	Socket  string // unix socket of libvirtd or virtqemud
}
