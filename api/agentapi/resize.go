package agentapi

import (
	"errors"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
)

// Resize is what a pod has said of its resizes: its own words.
type Resize struct {
	Reported time.Time     `json:"reported"`
	Report   podapi.Report `json:"report"`
}

// ResizeRequest asks for another size of a VM, on a node without Kubernetes: the body of
// a PUT. It takes the place of what was asked before.
type ResizeRequest struct {
	api.Size
	DryRun bool `json:"dryRun,omitempty"` // only have it planned
}

// ResizeAnswer tells what was asked for, and of which pods: several can have had the same
// name, one after the other.
type ResizeAnswer struct {
	Pods []ResizedPod `json:"pods"`
	api.Size
	DryRun bool `json:"dryRun,omitempty"`
}

// ResizedPod is a pod whose VM is to have another size. What is reported of that
// generation, or of a higher one, is about it; of a dry run only what is of that one.
type ResizedPod struct {
	UID        string `json:"uid"`
	Generation uint64 `json:"generation"`
}

// Check returns an error that names the field, its value and what is allowed.
func (r ResizeRequest) Check() error {
	if r.VCPUs < 0 || r.VCPUs > api.MaxVCPUs {
		return fmt.Errorf("vcpus: %d: want 1 to %d", r.VCPUs, api.MaxVCPUs)
	}
	if r.Memory < 0 {
		return fmt.Errorf("memory: %d: want more than 0 bytes", r.Memory)
	}
	if r.CPUShares != 0 && (r.CPUShares < api.MinCPUShares || r.CPUShares > api.MaxCPUShares) {
		return fmt.Errorf("cpuShares: %d: want %d to %d", r.CPUShares, api.MinCPUShares, api.MaxCPUShares)
	}
	if r.Size == (api.Size{}) {
		return errors.New("want one of vcpus, memory, cpuQuota and cpuShares at least")
	}
	return nil
}
