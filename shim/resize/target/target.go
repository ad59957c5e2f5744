package target

import (
	"reflect"
	"time"

	"github.com/mooring-vm/mooring/api"
)

// Target is the size that the planner brings a VM to, with the numbers that it needs beside
// [api.Size]. The VM keeps each dimension that is zero.
type Target struct {
	// Generation is that of the [podapi.Desired] that the target was computed from.
	Generation uint64 `json:"generation"`

	// Size has the vCPUs and the memory that the limits leave room for where the pod asks for
	// no number. CPUQuota is as the pod asks for it: Bandwidth is computed from it.
	api.Size `json:"size"`

	Overhead uint64 `json:"overhead,omitempty"` // bytes that the launcher needs beside Memory, at this size
	Limit    uint64 `json:"limit,omitempty"`    // memory limit of the container, in bytes; 0: none

	Bandwidth *Bandwidth `json:"bandwidth,omitempty"` // nil: as it is
}

// GuestMemory is Memory as an unsigned number of bytes.
func (t Target) GuestMemory() uint64 { return uint64(t.Memory) }

// MemoryRequirement is the lowest memory limit, in bytes, that the container may have with this
// target; 0 if the target has no memory.
func (t Target) MemoryRequirement() uint64 {
	if t.Memory == 0 {
		return 0
	}
	return t.GuestMemory() + t.Overhead
}

// SameSize reports whether two targets are the same but for generation and notation of the quota.
func (t Target) SameSize(other Target) bool {
	t.Generation, t.CPUQuota = 0, api.CPUQuota{}
	other.Generation, other.CPUQuota = 0, api.CPUQuota{}
	return reflect.DeepEqual(t, other)
}

// Bandwidth is the time that each vCPU may run in each period. Both are whole microseconds.
type Bandwidth struct {
	Period time.Duration `json:"period,omitempty"`
	Quota  time.Duration `json:"quota"` // or virt.Unlimited

	// FromLimit is set if the bandwidth is that of the container's CPU limit, which the
	// container's cgroup enforces in any case.
	FromLimit bool `json:"fromLimit,omitempty"`
}
