package api

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	// MaxCPUPercent is the highest accepted bandwidth: MaxVCPUs whole CPUs.
	MaxCPUPercent = 100 * MaxVCPUs

	// MaxMHz is the highest accepted frequency.
	MaxMHz = 100000
)

// quotaNone is the value of [CPUQuotaKey] that asks for no limit.
const quotaNone = "none"

// CPUQuota is a CPU bandwidth in one of three forms; the fields of the other forms are 0. The zero
// value means no request. In JSON it is the text of the annotation.
type CPUQuota struct {
	Percent     int  // CPU time of all vCPUs together, in percent of one CPU
	MHz, OfHost int  // frequency of each vCPU, and frequency of the host's CPUs, in MHz
	None        bool // no limit
}

// String returns the annotation value: "150%", "1200/2400MHz", "none", or "" for the zero
// value. [ParseCPUQuota] reads it back to the same CPUQuota.
func (q CPUQuota) String() string {
	switch {
	case q == CPUQuota{}:
		return ""
	case q.None:
		return quotaNone
	case q.OfHost > 0:
		return strconv.Itoa(q.MHz) + "/" + strconv.Itoa(q.OfHost) + "MHz"
	}
	return strconv.Itoa(q.Percent) + "%"
}

// MarshalText implements [encoding.TextMarshaler].
func (q CPUQuota) MarshalText() ([]byte, error) { return []byte(q.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. An empty text is the zero value. The
// error names the field "cpuQuota".
func (q *CPUQuota) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*q = CPUQuota{}
		return nil
	}
	if *q, err = ParseCPUQuota(string(text)); err != nil {
		return fmt.Errorf("cpuQuota: %w", err)
	}
	return nil
}

// ParseCPUQuota reads one of three forms: a percentage of one CPU between 1 and
// [MaxCPUPercent], with or without its sign ("150%", "150": one and a half CPUs); two
// frequencies between 1 and [MaxMHz] ("1200/2400MHz": each vCPU is half as fast as the host's
// CPUs with 2400 MHz); or "none". The error is an [*InvalidError] without key.
func ParseCPUQuota(s string) (CPUQuota, error) {
	if s == quotaNone {
		return CPUQuota{None: true}, nil
	}
	if pair, ok := strings.CutSuffix(s, "MHz"); ok {
		return parseFrequency(s, pair)
	}
	n, ok := parseCount(strings.TrimSuffix(s, "%"), 1, MaxCPUPercent)
	if !ok {
		return CPUQuota{}, invalid(s, "want percent of one CPU between 1%% and %d%%, such as "+
			"150%%; two frequencies such as 1200/2400MHz; or %q",
			MaxCPUPercent, quotaNone)
	}
	return CPUQuota{Percent: int(n)}, nil
}

func parseFrequency(s, pair string) (CPUQuota, error) {
	vm, host, _ := strings.Cut(pair, "/")
	m, ok := parseCount(vm, 1, MaxMHz)
	h, known := parseCount(host, 1, MaxMHz)
	if !ok || !known {
		return CPUQuota{}, invalid(s, "want two frequencies between 1 and %d, of a vCPU and of "+
			"the host's CPUs, such as 1200/2400MHz", MaxMHz)
	}
	return CPUQuota{MHz: int(m), OfHost: int(h)}, nil
}
