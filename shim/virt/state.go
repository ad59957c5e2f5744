package virt

import "time"

// State is what a domain is at one moment, as libvirt and the guest tell it.
type State struct {
	UUID string
	Name string

	Phase Phase

	// Migrating is set from the beginning of a migration's preparation to its end, at
	// its source and at its target.
	Migrating bool

	VCPUs     VCPUs
	Memory    Memory
	Bandwidth Bandwidth
}

// Life is where a domain is in its life. The fields are those of [State].
type Life struct {
	UUID      string
	Phase     Phase
	Migrating bool
}

// Phase is the phase of a domain's life.
type Phase string

// Phases, as virDomainState has them.
const (
	Running    Phase = "running"
	Paused     Phase = "paused"
	InShutdown Phase = "in shutdown"
	ShutOff    Phase = "shut off"
	Crashed    Phase = "crashed"
	Panicked   Phase = "panicked"  // the guest has, and QEMU was told to keep it
	Suspended  Phase = "suspended" // the guest sleeps
)

// Ended reports whether the domain does not run any more.
func (p Phase) Ended() bool { return p == ShutOff || p == Crashed }

// VCPUs are counts of virtual CPUs.
type VCPUs struct {
	// Plugged is how many the hypervisor has, Maximum how many it can have.
	Plugged, Maximum int

	// Boot is how many the domain has without those that can be unplugged.
	Boot int

	// Online is how many the guest uses, in its own words or as the state of its
	// CPUs shows it, and Unknown if nobody can tell.
	Online int
}

// Unknown is a figure that nobody can tell.
const Unknown = -1

// Memory is the memory of a domain, in bytes.
type Memory struct {
	// Boot is what the guest booted with: without what memory devices add.
	Boot uint64

	// Maximum is the domain's maxMemory, and 0 if it has none: nothing can be
	// plugged then.
	Maximum uint64

	// Slots is how many memory devices fit.
	Slots int

	// Cells is how many NUMA cells the guest has.
	Cells int

	// Devices are what was plugged, in libvirt's order.
	Devices []MemoryDevice

	// Balloon is what the balloon leaves to the guest, devices included, and
	// Ballooned whether there is one.
	Balloon   uint64
	Ballooned bool
}

// MemoryDevice is a memory device of a domain. Amounts are bytes.
type MemoryDevice struct {
	Alias string // libvirt's name for it, for example dimm0
	Model MemoryModel
	Cell  int // the guest's NUMA cell

	// Size is how much it can have at most. A DIMM has all of it.
	Size uint64

	// Block is the unit that the guest takes and gives, Requested what it was asked
	// to have, and Current what it has: for virtio-mem only.
	Block, Requested, Current uint64
}

// MemoryModel is the kind of a memory device.
type MemoryModel string

// The kinds of memory devices that guests can grow by.
const (
	DIMM      MemoryModel = "dimm"
	VirtioMem MemoryModel = "virtio-mem"
)

// Bandwidth is what the vCPUs of a domain may use of the host's CPUs. libvirt holds
// each vCPU to it, not their sum.
type Bandwidth struct {
	// Quota is how long each vCPU may run in each Period. Quota is Unlimited if it may
	// always run.
	Period, Quota time.Duration

	// Shares is the weight against other domains: cpu.weight with cgroup v2.
	Shares uint64

	// Supported tells whether libvirt can change it: not in session mode.
	Supported bool
}

// Unlimited is the Quota of vCPUs that may always run. libvirt is told 17592186044415
// for it, which all its versions take, and tells -1, 0 or that.
const Unlimited time.Duration = -1
