package target

import (
	"reflect"
	"time"

	"github.com/mooring-vm/mooring/api"
)

// Target is the size to which the planner brings a VM, with further numbers for the plan. The VM
// keeps each dimension that is zero.
type Target struct {
	// Generation is the generation of the [podapi.Desired] behind the target.
	Generation uint64 `json:"generation"`

	// Size is the requested size. If the pod requests no number of vCPUs or no memory, the number
	// follows the limits, or is zero if the guest keeps its own ([Guest].Keeps). Bandwidth is
	// computed from CPUQuota.
	api.Size `json:"size"`

	// bytes that the launcher needs beside Memory, at this size
	Overhead uint64 `json:"overhead,omitempty"`
	Limit    uint64 `json:"limit,omitempty"` // memory limit of the container, in bytes; 0: none

	// HugePages is set if the memory limit does not bound the guest's memory.
	HugePages bool `json:"hugePages,omitempty"`

	Bandwidth *Bandwidth `json:"bandwidth,omitempty"` // nil: as it is

	// Follows has the dimensions that follow the limits. The planner leaves out one that the VM
	// cannot have, and notes the reason.
	Follows Dimensions `json:"follows,omitzero"`

	// Notes describe requests and limits that the VM cannot have exactly.
	Notes []string `json:"notes,omitempty"`
}

// Dimensions are dimensions of a size.
type Dimensions struct {
	Memory bool `json:"memory,omitempty"`
	VCPUs  bool `json:"vcpus,omitempty"`
}

// GuestMemory is Memory as an unsigned number of bytes.
func (t Target) GuestMemory() uint64 { return uint64(t.Memory) }

// MemoryRequirement is the lowest memory limit, in bytes, that the container may have with this
// target; 0 if the target has no memory.
func (t Target) MemoryRequirement() uint64 {
	switch {
	case t.Memory == 0:
		return 0
	case t.HugePages:
		return t.Overhead
	}
	return t.GuestMemory() + t.Overhead
}

// SameSize reports whether two targets are the same but for generation, notes and notation of the
// quota.
func (t Target) SameSize(other Target) bool {
	t.Generation, t.CPUQuota, t.Notes = 0, api.CPUQuota{}, nil
	other.Generation, other.CPUQuota, other.Notes = 0, api.CPUQuota{}, nil
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
