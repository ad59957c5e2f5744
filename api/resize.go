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
)

const quotaNone = "none"

// CPUQuota is a CPU bandwidth: percent of one CPU, or no limit (None), in which
// case Percent is 0.
type CPUQuota struct {
	Percent int
	None    bool
}

// String returns the annotation value: "150%" or "none". [ParseCPUQuota] reads it
// back to the same CPUQuota.
func (q CPUQuota) String() string {
	if q.None {
		return quotaNone
	}
	return strconv.Itoa(q.Percent) + "%"
}

// ParseCPUQuota reads a percentage of one CPU between 1 and [MaxCPUPercent], with
// or without its sign ("150%", "150": one and a half CPUs), or "none". The error
// is an [*InvalidError] without key.
func ParseCPUQuota(s string) (CPUQuota, error) {
	if s == quotaNone {
		return CPUQuota{None: true}, nil
	}
	n, ok := parseCount(strings.TrimSuffix(s, "%"), 1, MaxCPUPercent)
	if !ok {
		return CPUQuota{}, invalid(s, "want percent of one CPU between 1%% and %d%%, such as 150%%; or %q",
			MaxCPUPercent, quotaNone)
	}
	return CPUQuota{Percent: int(n)}, nil
}

func parseVCPUs(s string) (int, error) {
	n, ok := parseCount(s, 1, MaxVCPUs)
	if !ok {
		return 0, invalid(s, "want a number of virtual CPUs between 1 and %d, such as 4", MaxVCPUs)
	}
	return int(n), nil
}
