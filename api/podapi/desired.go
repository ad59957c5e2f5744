package podapi

import "github.com/mooring-vm/mooring/api"

// Desired is the desired state of a VM: its size, and the limits that bound it.
type Desired struct {
	// Generation grows with every change of the other fields except DryRun, also across
	// restarts of the agent.
	Generation uint64 `json:"generation"`

	Launcher string `json:"launcher"` // container that runs the VM
	Limits   Limits `json:"limits"`   // limits of that container
	Pod      Limits `json:"pod"`      // limits of the pod as a whole

	// Outside is set if the VM runs in the node's libvirt, outside the pod's cgroups.
	Outside bool `json:"outside,omitempty"`

	api.Size
	DryRun *DryRun `json:"dryRun,omitempty"` // nil: none is requested

	// Policy is the largest size that the node policy allows, also for a dry run.
	Policy Bound `json:"policy,omitzero"`

	// Error says why the annotations could not be read, or why the node policy allows no size.
	// Size is empty then.
	Error string `json:"error,omitempty"`
}

// Bound is the largest size of a VM. 0 is no bound.
type Bound struct {
	Rule   string    `json:"rule,omitempty"` // of the node policy
	VCPUs  int       `json:"vcpus,omitempty"`
	Memory api.Bytes `json:"memory,omitempty"` // of the guest
}

// DryRun is a size for which the pod reports only a plan.
type DryRun struct {
	// Generation changes with each request, also for the same size. It is independent of
	// [Desired].Generation.
	Generation uint64 `json:"generation"`
	api.Size
}

// Limits are resource limits: memory in bytes, CPU in thousandths of a CPU. 0 is no limit.
type Limits struct {
	Memory int64 `json:"memory,omitempty"`
	CPU    int64 `json:"cpu,omitempty"`
}
