package api

// Suffix is the domain that all our annotation keys end in. A key under it that
// this package does not know is an error for a launcher container.
const Suffix = ".mooring.dev"

// CgroupSuffix ends the keys that set cgroup v2 files. What stands before it is
// the file's name: "memory.high.cgroup.mooring.dev".
const CgroupSuffix = ".cgroup" + Suffix

// Annotation keys. Most may be given for the pod (KEY or KEY/pod) or for one container
// (KEY/container.NAME). [LauncherKey], [SidecarKey], [APIVersionKey] and the keys of
// admission webhooks concern the pod as a whole and take the first two forms only.
const (
	// LauncherKey names the container that runs the VM.
	LauncherKey = "launcher" + Suffix

	// SidecarKey names the container that runs mooring-shim beside the launcher. It
	// is shown the pod's directory, and is given nothing else.
	SidecarKey = "sidecar" + Suffix

	// APIVersionKey says which version of this contract the writer knew.
	// Absent means [APIVersion].
	APIVersionKey = "api-version" + Suffix

	// RequiresLockKey ("true" or "false") says that the VM's memory is locked
	// although no device demands it.
	RequiresLockKey = "requires-lock.memlock" + Suffix

	// ValueKey is a quantity of lockable memory beyond the VM's own, or
	// "unlimited". Several writers add up: see [AddLockable].
	ValueKey = "value.memlock" + Suffix

	// GuestMemoryKey is the size of the VM's memory, which the lock is
	// computed from. Absent: the container's memory limit.
	GuestMemoryKey = "guest-memory.memlock" + Suffix

	// DevicesKey lists devices that pin the VM's memory: see [Devices].
	DevicesKey = "devices.memlock" + Suffix

	// GracePeriodKey is how long the VM gets to shut down.
	GracePeriodKey = "grace-period.lifecycle" + Suffix

	// WatchdogKey is how old the pod's heartbeat may become.
	WatchdogKey = "watchdog.lifecycle" + Suffix

	// DomainKey is the libvirt UUID or name of a VM whose process lives
	// outside the pod's cgroup.
	DomainKey = "domain.lifecycle" + Suffix

	// VCPUsKey is the number of virtual CPUs the VM should have.
	VCPUsKey = "vcpus.resize" + Suffix

	// ResizeMemoryKey is the memory the VM should have.
	ResizeMemoryKey = "memory.resize" + Suffix

	// CPUQuotaKey is the CPU bandwidth the VM should have: see [CPUQuota].
	CPUQuotaKey = "cpu-quota.resize" + Suffix

	// CPUSharesKey is the weight that the VM should have against others for CPU time.
	CPUSharesKey = "cpu-shares.resize" + Suffix
)

// Keys by which admission webhooks are asked for something, and in which they note what
// they did. They are checked like the others; a node does nothing by them.
const (
	// InjectSidecarKey asks for mooring-shim in a launcher pod: see [Injection].
	InjectSidecarKey = "sidecar.inject" + Suffix

	// InjectPreStopKey ("true" or "false") asks for the preStop hook of a launcher.
	InjectPreStopKey = "prestop.inject" + Suffix

	// AddedKey is how much of [ValueKey] Mooring's own webhook has added.
	AddedKey = "added.memlock" + Suffix

	// RenderedKey is what the launcher container's resources were when the pod was made:
	// see [Rendered].
	RenderedKey = "rendered.resize" + Suffix
)

// APIVersion is the version of the annotation contract that this package reads
// and writes.
const APIVersion = "v1alpha1"

// MaxScopedContainerName is the longest container name, in bytes, that fits
// KEY/container.NAME: Kubernetes ends the part after the slash at 63 characters,
// and "container." takes ten. A container with a longer name uses KEY/pod.
const MaxScopedContainerName = 63 - len(containerScope)

const (
	podScope       = "pod"
	containerScope = "container."
)
