package wanted

import "time"

// Size is what a VM is to become. What is zero is left as it is.
type Size struct {
	// Memory is what the guest has, and Overhead what its launcher needs beside that,
	// at this size and in bytes. Limit is the container's memory limit.
	Memory   uint64 `json:"memory,omitempty"`
	Overhead uint64 `json:"overhead,omitempty"`
	Limit    uint64 `json:"limit,omitempty"`

	VCPUs     int        `json:"vcpus,omitempty"`
	Bandwidth *Bandwidth `json:"bandwidth,omitempty"`

	// Shares are the weight of the VM against others: cpu.weight with cgroup v2.
	Shares uint64 `json:"shares,omitempty"`
}

// Need is what the container's memory limit has to be at least; 0 where no memory is
// wanted.
func (s Size) Need() uint64 {
	if s.Memory == 0 {
		return 0
	}
	return s.Memory + s.Overhead
}

// Bandwidth is how long each vCPU may run in each period. Both are whole microseconds.
type Bandwidth struct {
	Period time.Duration `json:"period,omitempty"`
	Quota  time.Duration `json:"quota"` // or virt.Unlimited

	// FromLimit is set where it is no more than the container's CPU limit says, which
	// its cgroup holds the VM to in any case.
	FromLimit bool `json:"fromLimit,omitempty"`
}
