package domain

// rest holds the parts of a domain that libvirtxml does not read: NVMe controllers among the
// backing images of a disk, the device that an interface got from a network's pool, the launch
// security of any type, and the arguments of QEMU in their namespace.
type rest struct {
	Disks      []chain      `xml:"devices>disk"`
	Interfaces []networkNIC `xml:"devices>interface"`
	Security   security     `xml:"launchSecurity"`
	Arguments  []argument   `xml:"http://libvirt.org/schemas/domain/qemu/1.0 commandline>arg"`
}

// chain is a disk image and its backing images.
type chain struct {
	Type         string `xml:"type,attr"`
	BackingStore *chain `xml:"backingStore"`
}

// networkNIC is an interface, possibly of one of libvirt's networks.
type networkNIC struct {
	Type   string `xml:"type,attr"`
	Source struct {
		Network string `xml:"network,attr"`
		Bridge  string `xml:"bridge,attr"` // only in the XML of a running domain, like PortID
		PortID  string `xml:"portid,attr"`
	} `xml:"source"`

	// Actual is the device taken from the network. libvirt writes it to its record of a running
	// domain. `virsh dumpxml` shows such an interface with the actual type instead.
	Actual *struct {
		Type string `xml:"type,attr"`
	} `xml:"actual"`
}

// security is the protection of the guest's memory, such as sev.
type security struct {
	Type string `xml:"type,attr"`
}

// argument is an argument of QEMU.
type argument struct {
	Value string `xml:"value,attr"`
}

func decodeRest(text []byte) (rest, error) {
	var r rest
	err := newDecoder(text).Decode(&r)
	return r, err
}
