package domain

// KiB is the unit that libvirt computes memory in.
const KiB = 1024

// Definition holds the parts of a domain's definition that its memory lock depends on. Sizes are in
// KiB. libvirt has rounded them up at the domain's start.
type Definition struct {
	HardLimit *uint64 // <memtune><hard_limit>, nil when there is none
	Locked    bool    // <memoryBacking><locked/>

	// Type is the domain's type, such as kvm. libvirt's formula is QEMU's, so [Definition.Limit]
	// refuses the types of other hypervisors. Empty when not given.
	Type string

	Arch string // of the guest; empty when not given
	KVM  bool   // type='kvm'

	Memory    uint64 // the memory devices at their full size included
	MaxMemory uint64 // <maxMemory>, 0 when there is none

	VFIO           int  // PCI and mediated host devices, and interfaces that are one
	NVMe           int  // disks with an NVMe controller in their chain
	VDPAInterfaces int  // interfaces of type vdpa
	VDPADisks      int  // images of type vhostvdpa, in all chains
	IOMMU          bool // there is a virtual IOMMU

	// HostBridges counts the PCI host bridges of a pSeries guest. It includes the bridges that
	// libvirt adds: the default one, and one for each PCI host device without an address. libvirt
	// adds fewer if several of these devices share an IOMMU group of the host.
	HostBridges int

	// Networks are the networks of interfaces with an unknown device. libvirt takes it from the
	// network's pool when the domain starts.
	Networks []string

	// DescriptorGroup is the group of file descriptors that has the iommufd of host devices. Another
	// program opened it, such as KubeVirt's virt-handler. Empty: no host device uses iommufd, or
	// libvirt opens it, and sets its accounting per process.
	DescriptorGroup string

	// Arguments are arguments from <qemu:commandline> that may pin memory. libvirt does not count
	// them.
	Arguments []string

	// SEV is set for <launchSecurity type='sev'>. The kernel pins the whole guest then, and libvirt
	// does not count that.
	SEV bool

	// NVLink2 is set if a host device is a GPU with an NVLink2 bridge. The XML does not contain
	// this fact, so Parse leaves it false.
	NVLink2 bool
}
