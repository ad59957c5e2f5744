package virt

import "time"

// State is the state of a domain at one moment, as reported by libvirt and the guest.
type State struct {
	UUID string
	Name string

	Phase Phase

	// Migrating is true from the preparation of a migration to its end, on the source and on the
	// target.
	Migrating bool

	VCPUs     VCPUs
	Memory    Memory
	Bandwidth Bandwidth
}

// Life is a domain's phase and migration. The fields are those of [State].
type Life struct {
	UUID      string
	Phase     Phase
	Migrating bool
}

// Phase is a phase in the life of a domain.
type Phase string

// The phases, from libvirt's virDomainState.
const (
	Running    Phase = "running"
	Paused     Phase = "paused"
	InShutdown Phase = "in shutdown"
	ShutOff    Phase = "shut off"
	Crashed    Phase = "crashed"
	Panicked   Phase = "panicked"  // the guest kernel panicked, and QEMU keeps running
	Suspended  Phase = "suspended" // the guest sleeps
)

// Ended reports whether the domain has stopped running.
func (p Phase) Ended() bool { return p == ShutOff || p == Crashed }

// VCPUs counts the virtual CPUs of a domain.
type VCPUs struct {
	// Plugged is the current number in the hypervisor, Maximum the largest possible number.
	Plugged, Maximum int

	// Boot is the number of plugged vCPUs that cannot be unplugged.
	Boot int

	// Online is the number that the guest uses. It comes from the guest agent and is Unknown
	// without an answer.
	Online int
}

// Unknown is the value of a count without an answer.
const Unknown = -1

// Memory is the memory of a domain, in bytes.
type Memory struct {
	// Boot is the memory at boot, without memory devices.
	Boot uint64

	// Maximum is the domain's maxMemory. It is 0 without one, and then no device can be plugged.
	Maximum uint64

	// Slots is the number of memory slots.
	Slots int

	// HugePage is the size of the largest huge page that backs the guest's memory; 0: none.
	HugePage uint64

	// Cells is the number of the guest's NUMA cells.
	Cells int

	// Devices are the plugged memory devices, in libvirt's order.
	Devices []MemoryDevice

	// Balloon is the memory that the balloon leaves to the guest, devices included. Ballooned tells
	// whether the domain has a balloon.
	Balloon   uint64
	Ballooned bool
}

// MemoryDevice is a memory device of a domain. Amounts are bytes.
type MemoryDevice struct {
	Alias string // libvirt's name for it, for example dimm0
	Model MemoryModel
	Cell  int // the guest's NUMA cell

	// Size is the device's capacity. A DIMM always provides all of it.
	Size uint64

	// Block is the granularity, Requested the size requested from the guest, Current the size the
	// guest has plugged. Only virtio-mem has them.
	Block, Requested, Current uint64
}

// MemoryModel is the kind of a memory device.
type MemoryModel string

// The models of memory devices that can be plugged into a guest.
const (
	DIMM      MemoryModel = "dimm"
	VirtioMem MemoryModel = "virtio-mem"
)

// Bandwidth is the limit of a domain's vCPUs on the host's CPUs. libvirt applies the quota to each
// vCPU, not to their sum.
type Bandwidth struct {
	// Quota is the run time allowed to each vCPU in each Period. It is Unlimited without a limit.
	Period, Quota time.Duration

	// Shares is the weight against other domains: cpu.weight with cgroup v2.
	Shares uint64

	// Supported reports whether libvirt can change the bandwidth. In session mode it cannot.
	Supported bool
}

// Unlimited is the Quota of vCPUs without a limit. Package libvirt writes it as 17592186044415,
// which all versions of libvirt accept. libvirt may report it as -1, 0 or 17592186044415.
const Unlimited time.Duration = -1
