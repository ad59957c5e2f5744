package policy

import "time"

// Lifecycle says how the agent recognises VM processes, and how it treats orphans. Parse fills in
// the defaults.
type Lifecycle struct {
	// Emulators are the base names of the executables that run VMs, in the file's order; never
	// empty.
	Emulators []string

	// GracePeriod is the time for a guest's shutdown if the pod asks for none. TermPeriod is the
	// time of its process between SIGTERM and SIGKILL. Both are whole seconds, > 0.
	GracePeriod, TermPeriod time.Duration

	// MaxGracePeriod is the longest grace period that a pod may ask for. It is whole seconds and at
	// least GracePeriod.
	MaxGracePeriod time.Duration

	Unattended Reaction // to a VM process that starts without a live pod or a fresh heartbeat
	Hung       Reaction // to a launcher that lives without a heartbeat

	// FenceAfter is how long the agent may be away before the fence acts, in whole seconds; 0:
	// never.
	FenceAfter time.Duration

	Libvirt *Libvirt // the node's libvirt, for VMs outside pods; nil: none
}

// Reaction is the agent's reaction to VM processes that should not run.
type Reaction string

// The reactions. Report is the default.
const (
	ReactionReport Reaction = "report" // Event and metric only
	ReactionStop   Reaction = "stop"   // also stop them
)

// Libvirt is the node's libvirt. Both paths are absolute.
type Libvirt struct {
	Records string // directory with an XML file for each running domain
	Socket  string // unix socket of libvirtd or virtqemud

	// RequireOwner are globs as in path.Match for names of domains. The start gate refuses the
	// start of such a domain without an active launcher that declares it.
	RequireOwner []string
}

// RequiresOwner reports whether the node's domain with this name needs an active launcher.
func (l Lifecycle) RequiresOwner(domain string) bool {
	return l.Libvirt != nil && matchAny(l.Libvirt.RequireOwner, domain)
}
