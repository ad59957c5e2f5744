package api

import (
	"strconv"
	"strings"
)

const (
	// MaxVCPUs is the highest number of virtual CPUs that is accepted: more
	// than KVM can be built for.
	MaxVCPUs = 8192

	// MaxCPUPercent is the highest bandwidth that is accepted: MaxVCPUs whole CPUs.
	MaxCPUPercent = 100 * MaxVCPUs

	// MinCPUShares is the lowest weight that is accepted. cgroup v2 has 1, too; but libvirt
	// before 9.1 refuses a definition with it, and so each migration of such a VM.
	MinCPUShares = 2

	// MaxCPUShares is the highest weight that cgroup v2 has.
	MaxCPUShares = 10000
)

const quotaNone = "none"

// MaxMHz is the highest frequency that is accepted.
const MaxMHz = 100000

// CPUQuota is a CPU bandwidth, in one of three ways: percent of one CPU; a frequency of
// each vCPU, in MHz, on a host whose CPUs have another one; or no limit (None). What is of
// another way is 0.
type CPUQuota struct {
	Percent     int
	MHz, OfHost int
	None        bool
}

// String returns the annotation value: "150%", "1200/2400MHz" or "none". [ParseCPUQuota]
// reads it back to the same CPUQuota.
func (q CPUQuota) String() string {
	switch {
	case q.None:
		return quotaNone
	case q.OfHost > 0:
		return strconv.Itoa(q.MHz) + "/" + strconv.Itoa(q.OfHost) + "MHz"
	}
	return strconv.Itoa(q.Percent) + "%"
}

// ParseCPUQuota reads a percentage of one CPU between 1 and [MaxCPUPercent], with or
// without its sign ("150%", "150": one and a half CPUs); two frequencies between 1 and
// [MaxMHz] ("1200/2400MHz": each vCPU is half as fast as a CPU of the host, which has
// 2400 MHz); or "none". The error is an [*InvalidError] without key.
func ParseCPUQuota(s string) (CPUQuota, error) {
	if s == quotaNone {
		return CPUQuota{None: true}, nil
	}
	if pair, ok := strings.CutSuffix(s, "MHz"); ok {
		return parseFrequency(s, pair)
	}
	n, ok := parseCount(strings.TrimSuffix(s, "%"), 1, MaxCPUPercent)
	if !ok {
		return CPUQuota{}, invalid(s, "want percent of one CPU between 1%% and %d%%, such as 150%%; two frequencies such as 1200/2400MHz; or %q",
			MaxCPUPercent, quotaNone)
	}
	return CPUQuota{Percent: int(n)}, nil
}

func parseFrequency(s, pair string) (CPUQuota, error) {
	vm, host, _ := strings.Cut(pair, "/")
	m, ok := parseCount(vm, 1, MaxMHz)
	h, known := parseCount(host, 1, MaxMHz)
	if !ok || !known {
		return CPUQuota{}, invalid(s, "want two frequencies between 1 and %d, of a vCPU and of the host's CPUs, such as 1200/2400MHz", MaxMHz)
	}
	return CPUQuota{MHz: int(m), OfHost: int(h)}, nil
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
		return 0, invalid(s, "want CPU shares between %d and %d, such as 200: the weight of cgroup v2, of which 100 is usual", MinCPUShares, MaxCPUShares)
	}
	return int(n), nil
}
