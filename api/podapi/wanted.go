package podapi

import (
	"strings"

	"github.com/mooring-vm/mooring/api"
)

// Wanted is what a VM is asked to be.
type Wanted struct {
	// Generation grows with every change of the rest, also past a restart of the agent.
	// A dry run is no change.
	Generation uint64 `json:"generation"`

	// Launcher is the container that runs the VM, with its limits; Pod are those of the
	// pod as a whole.
	Launcher string `json:"launcher"`
	Limits   Limits `json:"limits"`
	Pod      Limits `json:"pod"`

	// Outside is set if the VM runs in the node's libvirt, outside of the pod's cgroups.
	Outside bool `json:"outside,omitempty"`

	Size
	DryRun *DryRun `json:"dryRun,omitempty"` // nil: none is asked for

	// Error says why annotations could not be read; Size is empty then.
	Error string `json:"error,omitempty"`
}

// DryRun is a size of which only a plan is to be reported.
type DryRun struct {
	// Generation is another one each time that somebody asks, also for the same size. It
	// has nothing to do with that of what is wanted.
	Generation uint64 `json:"generation"`
	Size
}

// Limits are limits: memory in bytes, CPU in thousandths of a CPU; 0 is none.
type Limits struct {
	Memory int64 `json:"memory,omitempty"`
	CPU    int64 `json:"cpu,omitempty"`
}

// Size is what annotations, or `mooring resize`, want within the limits. What is empty is
// let be, or follows the limits if the sidecar is told to; CPU shares follow none.
type Size struct {
	VCPUs     int    `json:"vcpus,omitempty"`
	Memory    int64  `json:"memory,omitempty"`    // bytes
	CPUQuota  string `json:"cpuQuota,omitempty"`  // as [api.ParseCPUQuota] reads it
	CPUShares int    `json:"cpuShares,omitempty"` // from [api.MinCPUShares] to [api.MaxCPUShares]
}

// SizeAnnotations returns those of a pod that concern the size of its VM; nil: none.
func SizeAnnotations(annotations map[string]string) map[string]string {
	const suffix = ".resize" + api.Suffix
	var some map[string]string
	for key, value := range annotations {
		base, _, _ := strings.Cut(key, "/")
		if !strings.HasSuffix(base, suffix) {
			continue
		}
		if some == nil {
			some = map[string]string{}
		}
		some[key] = value
	}
	return some
}

// SizeOf returns what a request asks for.
func SizeOf(r api.Request) Size {
	var s Size
	if r.VCPUs != nil {
		s.VCPUs = *r.VCPUs
	}
	if r.Memory != nil {
		s.Memory = *r.Memory
	}
	if r.CPUQuota != nil {
		s.CPUQuota = r.CPUQuota.String()
	}
	if r.CPUShares != nil {
		s.CPUShares = *r.CPUShares
	}
	return s
}

// Request returns the size as annotations would ask for it. The error is the quota's.
func (s Size) Request() (api.Request, error) {
	var r api.Request
	if s.VCPUs != 0 {
		r.VCPUs = &s.VCPUs
	}
	if s.Memory != 0 {
		r.Memory = &s.Memory
	}
	if s.CPUShares != 0 {
		r.CPUShares = &s.CPUShares
	}
	if s.CPUQuota == "" {
		return r, nil
	}
	quota, err := api.ParseCPUQuota(s.CPUQuota)
	r.CPUQuota = &quota
	return r, err
}
