package domain

// KiB is the unit that libvirt computes memory in.
const KiB = 1024

// Definition is what a memory lock depends on of a domain's definition. Sizes are
// in KiB, as libvirt has them after it rounded them up at the domain's start.
type Definition struct {
	HardLimit *uint64 // <memtune><hard_limit>, nil when there is none
	Locked    bool    // <memoryBacking><locked/>

	Arch string // of the guest; empty when not given
	KVM  bool   // type='kvm'

	Memory    uint64 // the memory devices at their full size included
	MaxMemory uint64 // <maxMemory>, 0 when there is none

	VFIO           int  // PCI and mediated host devices, and interfaces that are one
	NVMe           int  // disks with an NVMe controller in their chain
	VDPAInterfaces int  // interfaces of type vdpa
	VDPADisks      int  // images of type vhostvdpa, in all chains
	IOMMU          bool // there is a virtual IOMMU

	// HostBridges counts the PCI host bridges of a pSeries guest, among them
	// those that libvirt adds: the default one, and one for each PCI host
	// device that has no address yet. Where several of those share an IOMMU
	// group of the host libvirt adds fewer.
	HostBridges int

	// NVLink2 says that a host device is a GPU with an NVLink2 bridge, which
	// the host knows and the XML does not tell. Parse leaves it false.
	NVLink2 bool
}
