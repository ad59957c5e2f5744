package agentapi

import (
	"errors"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
)

// Resize is a pod's latest report of its resizes, in the pod's own words.
type Resize struct {
	Reported time.Time     `json:"reported"`
	Report   podapi.Report `json:"report"`

	// Desired is the size that the report is about; nil: unknown.
	Desired *DesiredSize `json:"wanted,omitempty"`
}

// ResizeRequest asks for another size of a VM on a node without Kubernetes: the body of a PUT. It
// replaces an earlier request.
type ResizeRequest struct {
	api.Size
	DryRun bool `json:"dryRun,omitempty"` // only plan the resize
}

// ResizeAnswer returns the request and the pods that it applies to. Several pods can have had the
// same name.
type ResizeAnswer struct {
	Pods []ResizedPod `json:"pods"`
	api.Size
	DryRun bool `json:"dryRun,omitempty"`
}

// ResizedPod is a pod with a new desired size. A report with this generation or a higher one is
// about this size. For a dry run only a report with this generation is.
type ResizedPod struct {
	UID        string `json:"uid"`
	Generation uint64 `json:"generation"`
}

// Check returns an error with the field, its value and the allowed values.
func (r ResizeRequest) Check() error {
	if r.VCPUs < 0 || r.VCPUs > api.MaxVCPUs {
		return fmt.Errorf("vcpus: %d: want 1 to %d", r.VCPUs, api.MaxVCPUs)
	}
	if r.Memory < 0 {
		return fmt.Errorf("memory: %d: want more than 0 bytes", r.Memory)
	}
	if r.CPUShares != 0 && (r.CPUShares < api.MinCPUShares || r.CPUShares > api.MaxCPUShares) {
		return fmt.Errorf("cpuShares: %d: want %d to %d", r.CPUShares, api.MinCPUShares,
			api.MaxCPUShares)
	}
	if r.Size == (api.Size{}) {
		return errors.New("want one of vcpus, memory, cpuQuota and cpuShares at least")
	}
	return nil
}
