package gate

const (
	// HookPath is the place of an installed hook.
	HookPath = "/etc/libvirt/hooks/qemu.d/50-mooring"

	// NewHookPath is the place of a hook before its rename to HookPath. libvirt does not run it.
	NewHookPath = "/etc/libvirt/hooks/50-mooring.new"

	// ConfigPath is the place of its configuration.
	ConfigPath = "/etc/libvirt/hooks/mooring-gate.json"

	// StatePath is the place of the agent's state.
	StatePath = "/run/mooring/" + StateName

	// Probe is the name of a domain that each working gate refuses. It never starts.
	Probe = "mooring-start-gate-probe"

	// ProbeRefused is the reason for the refusal of the probe.
	ProbeRefused = "the start gate works: it refuses its probe"
)

// Programs returns the paths of the launchers' program on a node, of which the hook is a copy: the
// path of the unit and the path of the DaemonSet.
func Programs() []string {
	return []string{
		"/usr/local/libexec/mooring/mooring-hook", "/opt/mooring/libexec/mooring-hook",
	}
}
