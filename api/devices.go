package api

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxDevices is the highest accepted count of one kind of device.
const MaxDevices = 1024

const wantDevices = "want a list such as vfio=2,vdpa=1,nvme=1,iommu, each word at most once, " +
	"without spaces"

// Devices counts the passed-through devices that make QEMU lock the VM's memory. The fields are the
// inputs of libvirt's own computation (qemuDomainGetMemLockLimitBytes).
type Devices struct {
	VFIO  int  // PCI and mediated host devices
	VDPA  int  // vDPA network interfaces and disks
	NVMe  int  // disks with an NVMe controller passed through
	IOMMU bool // the VM has a virtual IOMMU: every VFIO device pins on its own
}

// Any reports whether there is a device.
func (d Devices) Any() bool {
	return d.VFIO > 0 || d.VDPA > 0 || d.NVMe > 0
}

// String returns the annotation value, in the order vfio, vdpa, nvme, iommu, or "" for the zero
// value. [ParseDevices] reads it back to the same Devices.
func (d Devices) String() string {
	var words []string
	for _, kind := range d.kinds() {
		if *kind.count != 0 {
			words = append(words, fmt.Sprintf("%s=%d", kind.name, *kind.count))
		}
	}
	if d.IOMMU {
		words = append(words, "iommu")
	}
	return strings.Join(words, ",")
}

type deviceKind struct {
	name  string
	count *int
}

// kinds maps the words of the annotation to the counts of d.
func (d *Devices) kinds() []deviceKind {
	return []deviceKind{{"vfio", &d.VFIO}, {"vdpa", &d.VDPA}, {"nvme", &d.NVMe}}
}

// ParseDevices reads a list such as "vfio=2,vdpa=1,nvme=1,iommu". Each word appears at most once,
// counts are between 1 and [MaxDevices], spaces are not allowed, and iommu needs a device. The
// error is an [*InvalidError] without key.
func ParseDevices(s string) (Devices, error) {
	var d Devices
	seen := map[string]bool{}
	for word := range strings.SplitSeq(s, ",") {
		name, count, counted := strings.Cut(word, "=")
		if seen[name] {
			return Devices{}, invalid(s, "%s is there twice: %s", Quote(name), wantDevices)
		}
		seen[name] = true
		if why := d.set(name, count, counted); why != "" {
			return Devices{}, invalid(s, "%s: %s", why, wantDevices)
		}
	}
	if !d.Any() {
		return Devices{}, invalid(s, "iommu says how devices are counted, and there is none: %s",
			wantDevices)
	}
	return d, nil
}

// set stores one word of the list and returns its fault, or "".
func (d *Devices) set(name, count string, counted bool) string {
	if name == "iommu" {
		if counted {
			return "iommu takes no count"
		}
		d.IOMMU = true
		return ""
	}
	for _, kind := range d.kinds() {
		if kind.name != name {
			continue
		}
		n, ok := parseCount(count, 1, MaxDevices)
		if !ok {
			return fmt.Sprintf("%s takes a count between 1 and %d, such as %s=1", name,
				MaxDevices, name)
		}
		*kind.count = int(n)
		return ""
	}
	return "unknown device " + Quote(name)
}

// parseCount reads a decimal number between lo and hi in the one form that strconv prints: no sign,
// no leading zeros, no underscores.
func parseCount(s string, lo, hi int64) (n int64, ok bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != s {
		return 0, false
	}
	return n, lo <= n && n <= hi
}
