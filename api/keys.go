package api

// Suffix is the domain at the end of all Mooring annotation keys. An unknown key under it is an
// error for a launcher container.
const Suffix = ".mooring.dev"

// CgroupSuffix ends the keys that set cgroup v2 files. The file's name precedes it, as in
// "memory.high.cgroup.mooring.dev".
const CgroupSuffix = ".cgroup" + Suffix

// Annotation keys. Most of them apply to the pod (KEY or KEY/pod) or to one container
// (KEY/container.NAME). [LauncherKey], [SidecarKey], [APIVersionKey] and the keys of admission
// webhooks concern the pod as a whole and take only the first two forms.
const (
	// LauncherKey names the container that runs the VM.
	LauncherKey = "launcher" + Suffix

	// SidecarKey names the container that runs mooring-shim beside the launcher. It gets the pod's
	// directory and no limits.
	SidecarKey = "sidecar" + Suffix

	// APIVersionKey is the version of this contract that the writer used. Absent: [APIVersion].
	APIVersionKey = "api-version" + Suffix

	// RequiresLockKey ("true" or "false") asks for a memory lock even without a device that needs
	// it.
	RequiresLockKey = "requires-lock.memlock" + Suffix

	// ValueKey is a quantity of lockable memory in addition to the VM's own, or "unlimited".
	// Several writers add their parts with [AddLockable].
	ValueKey = "value.memlock" + Suffix

	// GuestMemoryKey is the memory of the guest for the computation of the lock. Absent: the
	// container's memory limit.
	GuestMemoryKey = "guest-memory.memlock" + Suffix

	// OverheadKey is the launcher's memory beyond [GuestMemoryKey]. Absent: the node estimates it.
	OverheadKey = "overhead.memlock" + Suffix

	// DevicesKey lists devices that pin the VM's memory: see [Devices].
	DevicesKey = "devices.memlock" + Suffix

	// GracePeriodKey is the time that the VM gets for its shutdown.
	GracePeriodKey = "grace-period.lifecycle" + Suffix

	// WatchdogKey is the highest allowed age of the pod's heartbeat.
	WatchdogKey = "watchdog.lifecycle" + Suffix

	// DomainKey is the libvirt UUID or name of a VM with its process outside the pod's cgroup.
	DomainKey = "domain.lifecycle" + Suffix

	// VCPUsKey is the desired number of virtual CPUs.
	VCPUsKey = "vcpus.resize" + Suffix

	// ResizeMemoryKey is the desired memory of the guest.
	ResizeMemoryKey = "memory.resize" + Suffix

	// CPUQuotaKey is the desired CPU bandwidth: see [CPUQuota].
	CPUQuotaKey = "cpu-quota.resize" + Suffix

	// CPUSharesKey is the desired weight of the VM against other VMs for CPU time.
	CPUSharesKey = "cpu-shares.resize" + Suffix
)

// Keys for admission webhooks: requests to them, and records of their changes. A node checks these
// keys like all other keys and does not act on them.
const (
	// InjectSidecarKey asks for mooring-shim in a launcher pod: see [Injection].
	InjectSidecarKey = "sidecar.inject" + Suffix

	// InjectPreStopKey ("true" or "false") asks for the preStop hook of a launcher.
	InjectPreStopKey = "prestop.inject" + Suffix

	// AddedKey is the part of [ValueKey] that Mooring's own webhook added.
	AddedKey = "added.memlock" + Suffix

	// RenderedKey records the launcher container's resources at the creation of the pod: see
	// [Rendered].
	RenderedKey = "rendered.resize" + Suffix
)

// APIVersion is the version of the annotation contract in this package.
const APIVersion = "v1alpha1"

// MaxScopedContainerName is the longest container name, in bytes, for KEY/container.NAME.
// Kubernetes allows 63 characters after the slash, and "container." takes ten. A container with a
// longer name needs KEY/pod.
const MaxScopedContainerName = 63 - len(containerScope)

const (
	podScope       = "pod"
	containerScope = "container."
)
