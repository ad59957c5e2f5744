package kubevirt

import "fmt"

const (
	ki = int64(1) << 10
	mi = ki << 10
	gi = mi << 10
)

// Amounts that are the same in every version.
const (
	monitor     = 25 * mi
	perVCPU     = 8 * mi
	ioThread    = 8 * mi
	arm64Flash  = 128 * mi // two of 64 MiB
	vfio        = gi       // for the I/O memory of all devices together
	downward    = mi
	firstProbe  = 100 * mi // the probing program
	eachProbe   = 10 * mi
	sev         = 256 * mi
	swtpm       = 53 * mi
	exclusive   = 100 * mi // dedicated CPUs, or a pod of the class Guaranteed
	passtAll    = 800 * mi // each passt interface that forwards all ports
	pageTableOf = 512      // bytes of memory to a byte of page tables
)

const arm64 = "arm64"

// trait is a difference between KubeVirt versions in the overhead.
type trait uint16

const (
	asLibvirtd          trait = 1 << iota // the daemon is libvirtd instead of virtqemud
	hasRatio                              // there is an additionalGuestMemoryOverheadRatio
	exclusiveAfterRatio                   // counts exclusive, without the ratio
	exclusiveInRatio                      // counts exclusive, and the ratio multiplies it
	countsPasst                           // counts passt interfaces
	disablesTPM                           // knows a disabled TPM
	// leaves requests.memory empty; a memory limit alone makes the pod Guaranteed
	noDefaults
	countsSNP      // counts SEV-SNP
	countsReserved // counts reservedOverhead.addedOverhead
)

// release holds the amounts from one version on.
type release struct {
	from                                       Version
	launcher, virtlogd, daemon, qemu, graphics int64 // MiB
	traits                                     trait
}

// releases is the table. A row holds up to the next one. Rows are in the order of versions, so a
// row may remove a trait of an older patch release: 0.59.0 came out before the ratio of 0.58.2, and
// 1.5.0 before the TPM of 1.4.1.
var releases = [...]release{
	// from, virt-launcher, virtlogd, libvirtd or virtqemud, qemu, graphics
	{v(0, 54, 0), 75, 17, 33, 30, 16, asLibvirtd},
	{v(0, 55, 0), 100, 17, 33, 30, 16, asLibvirtd},
	{v(0, 57, 0), 100, 18, 35, 30, 16, asLibvirtd},
	{v(0, 58, 1), 100, 20, 35, 30, 16, asLibvirtd},
	{v(0, 58, 2), 100, 20, 35, 30, 16, asLibvirtd | hasRatio},
	{v(0, 59, 0), 100, 20, 35, 30, 16, countsPasst},
	{v(0, 59, 1), 100, 20, 35, 30, 16, countsPasst | hasRatio},
	{v(1, 1, 0), 100, 20, 35, 30, 16, countsPasst | hasRatio | exclusiveAfterRatio},
	{v(1, 3, 0), 100, 20, 35, 30, 16, hasRatio | exclusiveAfterRatio},
	{v(1, 4, 1), 100, 20, 40, 30, 16, hasRatio | exclusiveAfterRatio | disablesTPM},
	{v(1, 5, 0), 100, 25, 40, 30, 16, hasRatio | exclusiveAfterRatio},
	{v(1, 5, 1), 100, 25, 40, 30, 16, hasRatio | exclusiveAfterRatio | disablesTPM},
	{v(1, 5, 3), 100, 25, 40, 30, 16, hasRatio | exclusiveInRatio | disablesTPM},
	{v(1, 6, 0), 100, 25, 40, 30, 32, hasRatio | exclusiveInRatio | disablesTPM},
	{v(1, 6, 4), 100, 25, 40, 30, 32, hasRatio | exclusiveInRatio | disablesTPM | noDefaults},
	{v(1, 7, 0), 100, 25, 40, 30, 32,
		hasRatio | exclusiveInRatio | disablesTPM | noDefaults | countsSNP},
	{v(1, 8, 0), 100, 25, 40, 30, 32,
		hasRatio | exclusiveInRatio | disablesTPM | noDefaults | countsSNP | countsReserved},
	{Version{main: true}, 100, 25, 40, 50, 32,
		hasRatio | exclusiveInRatio | disablesTPM | noDefaults | countsSNP | countsReserved},
}

func (r release) has(t trait) bool {
	return r.traits&t != 0
}

func v(major, minor, patch int) Version {
	return Version{major: major, minor: minor, patch: patch}
}

// releaseOf returns the row of a version. The zero Version is an error.
func releaseOf(version Version) (release, error) {
	if !version.covered() {
		return release{}, fmt.Errorf("KubeVirt version %s: %s", version, wantVersion)
	}
	row := releases[0]
	for _, r := range releases {
		if r.from.Compare(version) <= 0 {
			row = r
		}
	}
	return row, nil
}
