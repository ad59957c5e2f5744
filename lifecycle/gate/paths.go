package gate

const (
	// HookPath is the place of an installed hook.
	HookPath = "/etc/libvirt/hooks/qemu.d/50-mooring"

	// ConfigPath is the place of its configuration.
	ConfigPath = "/etc/libvirt/hooks/mooring-gate.json"

	// StatePath is the place of the agent's state.
	StatePath = "/run/mooring/" + StateName

	// Probe is the name of a domain that each working gate refuses. It never starts.
	Probe = "mooring-start-gate-probe"

	// ProbeRefused is the reason for the refusal of the probe.
	ProbeRefused = "the start gate works: it refuses its probe"
)
