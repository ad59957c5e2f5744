package api

import (
	"strconv"
	"strings"
)

const (
	// MaxVCPUs is the highest accepted number of virtual CPUs: more than KVM can be built for.
	MaxVCPUs = 8192

	// MinCPUShares is the lowest accepted weight. cgroup v2 allows 1. But libvirt before 9.1
	// refuses a domain definition with it, so such a VM could not migrate.
	MinCPUShares = 2

	// MaxCPUShares is the highest weight of cgroup v2.
	MaxCPUShares = 10000
)

// resizeSuffix ends the keys of the annotations that concern the size of a VM.
const resizeSuffix = ".resize" + Suffix

// Size is the size of a VM. Annotations or `mooring resize` request it, and it goes unchanged to
// the planner in mooring-shim. A dimension with its zero value is not requested: the VM keeps it,
// or follows the limits of its container. The limits and requests of containers are not a Size.
type Size struct {
	VCPUs    int      `json:"vcpus,omitempty"`   // virtual CPUs, 1 to MaxVCPUs
	Memory   Bytes    `json:"memory,omitempty"`  // memory of the guest
	CPUQuota CPUQuota `json:"cpuQuota,omitzero"` // CPU bandwidth, as in the annotation
	// cpu.weight of cgroup v2, MinCPUShares to MaxCPUShares
	CPUShares int `json:"cpuShares,omitempty"`
}

// ParseSize reads the size requested by the annotations of a pod, for the named container. It reads
// only keys below "resize.mooring.dev"; precedence and errors are as in [Parse].
func ParseSize(annotations map[string]string, container string) (Size, error) {
	own := map[string]string{}
	for key, value := range annotations {
		if strings.HasSuffix(baseKey(key), resizeSuffix) {
			own[key] = value
		}
	}
	if len(own) == 0 {
		return Size{}, nil
	}
	r, err := Parse(own, container)
	return r.Size, err
}

// Annotations returns the annotations that ask for the size, for the whole pod. [ParseSize]
// reads them back to the same Size.
func (s Size) Annotations() map[string]string {
	all := map[string]string{}
	if s.VCPUs != 0 {
		all[VCPUsKey] = strconv.Itoa(s.VCPUs)
	}
	if s.Memory != 0 {
		all[ResizeMemoryKey] = s.Memory.String()
	}
	if s.CPUQuota != (CPUQuota{}) {
		all[CPUQuotaKey] = s.CPUQuota.String()
	}
	if s.CPUShares != 0 {
		all[CPUSharesKey] = strconv.Itoa(s.CPUShares)
	}
	return all
}

func parseVCPUs(s string) (int, error) {
	n, ok := parseCount(s, 1, MaxVCPUs)
	if !ok {
		return 0, invalid(s, "want a number of virtual CPUs between 1 and %d, such as 4", MaxVCPUs)
	}
	return int(n), nil
}

func parseCPUShares(s string) (int, error) {
	n, ok := parseCount(s, MinCPUShares, MaxCPUShares)
	if !ok {
		return 0, invalid(s, "want CPU shares between %d and %d, such as 200: the weight of "+
			"cgroup v2, of which 100 is usual", MinCPUShares, MaxCPUShares)
	}
	return int(n), nil
}
