package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LauncherReport is a container that runs a VM, with its requests and their results. The steps of
// resizes are in the pod's Events.
type LauncherReport struct {
	Pod       PodReport       `json:"pod"`
	Container ContainerReport `json:"container"`

	// State is Creating, Created, Running, Stopped or Refused.
	State string `json:"state"`

	// Since is the start of State.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// Mode is the policy's mode of the decision: observe or enforce.
	// +optional
	Mode string `json:"mode,omitempty"`

	// Rule is the policy's rule of the decision; absent: none matched.
	// +optional
	Rule string `json:"rule,omitempty"`

	// Settings has the memory lock first, then cgroup files by name.
	// +listType=atomic
	// +optional
	Settings []SettingReport `json:"settings,omitempty"`

	// Refusal is the reason of the refusal, in mode observe that of mode enforce.
	// +optional
	Refusal string `json:"refusal,omitempty"`

	// Notes are further remarks for the user.
	// +listType=atomic
	// +optional
	Notes []string `json:"notes,omitempty"`

	// Limits of the launcher container.
	// +optional
	Limits LimitsReport `json:"limits,omitempty,omitzero"`

	// Phase is Registered, Active, Draining or Done; absent without a tracker.
	// +optional
	Phase string `json:"phase,omitempty"`

	// PhaseSince is the start of Phase.
	// +optional
	PhaseSince *metav1.Time `json:"phaseSince,omitempty"`

	// Why is the cause of Phase.
	// +optional
	Why string `json:"why,omitempty"`

	// VMs are the VM processes in the order of their start.
	// +listType=atomic
	// +optional
	VMs []VMReport `json:"vms,omitempty"`

	// +optional
	Heartbeat *HeartbeatReport `json:"heartbeat,omitempty"`

	// +optional
	Lease *LeaseReport `json:"lease,omitempty"`

	// Resize is absent before the pod's first report of a resize.
	// +optional
	Resize *ResizeReport `json:"resize,omitempty"`
}

// PodReport names a pod.
type PodReport struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// ContainerReport names a container.
type ContainerReport struct {
	Name string `json:"name"`

	// ID is the container runtime's.
	// +optional
	ID string `json:"id,omitempty"`

	// PID is the container's first process in the node's pid namespace.
	// +optional
	PID int `json:"pid,omitempty"`
}

// LimitsReport are limits of a container; 0 is none.
type LimitsReport struct {
	// Memory is in bytes.
	// +optional
	Memory int64 `json:"memory,omitempty"`

	// CPU is in thousandths of a CPU.
	// +optional
	CPU int64 `json:"cpu,omitempty"`
}

// SettingReport is one request of a launcher with its result. Amounts of memory are quantities or
// "unlimited".
type SettingReport struct {
	// Name is memlock or a cgroup file.
	Name string `json:"name"`

	// Asked is the request of the annotations.
	// +optional
	Asked string `json:"asked,omitempty"`

	// Allowed is the policy's ceiling.
	// +optional
	Allowed string `json:"allowed,omitempty"`

	// Given is the value that the runtime got.
	// +optional
	Given string `json:"given,omitempty"`

	// Seen is the kernel's value.
	// +optional
	Seen string `json:"seen,omitempty"`

	// Status is applied, differs, repaired, yielded, observed, refused, pending, ineffective or
	// unknown.
	Status string `json:"status"`

	// +optional
	Message string `json:"message,omitempty"`

	// Terms are the summands of a computed request.
	// +listType=atomic
	// +optional
	Terms []TermReport `json:"terms,omitempty"`
}

// TermReport is one summand of a computed amount.
type TermReport struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// VMReport is a VM process of a launcher.
type VMReport struct {
	// PID is in the node's pid namespace.
	PID int `json:"pid"`

	// StartTime is in clock ticks after boot: field 22 of proc_pid_stat(5).
	StartTime int64 `json:"startTime"`

	// Executable is the base name of the executable.
	// +optional
	Executable string `json:"executable,omitempty"`

	// Domain is libvirt's name of a node-level VM.
	// +optional
	Domain string `json:"domain,omitempty"`

	// State is Running, Stopping, Killing or Gone.
	State string `json:"state"`

	// Since is the start of State.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// Why is the cause of State.
	// +optional
	Why string `json:"why,omitempty"`

	// +optional
	Usage *UsageReport `json:"usage,omitempty"`
}

// UsageReport is the use of the node by a VM process, in bytes and thousandths of a CPU.
type UsageReport struct {
	// Memory is resident memory: VmRSS of proc_pid_status(5).
	Memory int64 `json:"memory"`

	// Locked is VmLck, and Pinned is VmPin.
	Locked int64 `json:"locked"`
	Pinned int64 `json:"pinned"`

	// PinnedPer is the process or user, or both, whose pinned pages the kernel adds up and compares
	// with the memory-lock limit. Absent: nothing is pinned, or no limit applies.
	// +optional
	PinnedPer string `json:"pinnedPer,omitempty"`

	// CPU is the CPU time between the two latest samples; absent after the first one.
	// +optional
	CPU *int64 `json:"cpu,omitempty"`
}

// HeartbeatReport is the heartbeat of a launcher with a watchdog, in seconds.
type HeartbeatReport struct {
	// Watchdog is the highest allowed age.
	Watchdog int64 `json:"watchdog"`

	// Age was the age of the latest heartbeat at heartbeatTime; absent: there was none.
	// +optional
	Age *int64 `json:"age,omitempty"`

	// Expired is set once the age exceeds the watchdog.
	// +optional
	Expired bool `json:"expired,omitempty"`
}

// LeaseReport prevents the agent from stopping a launcher's VM processes until it expires.
type LeaseReport struct {
	Reason string      `json:"reason"`
	Until  metav1.Time `json:"until"`
}

// ResizeReport is the latest report of a pod about the size of its VM, in the pod's own words.
type ResizeReport struct {
	// State is Idle, Resizing, Done, Failed or Refused.
	State string `json:"state"`

	// Wanted is the size that the report is about; absent: unknown.
	// +optional
	Wanted *SizeReport `json:"wanted,omitempty"`

	// Actual is the size that the guest has confirmed; absent: unknown.
	// +optional
	Actual *SizeReport `json:"actual,omitempty"`

	// +optional
	Error string `json:"error,omitempty"`

	// Reported is the time of the report; absent: unknown.
	// +optional
	Reported *metav1.Time `json:"reported,omitempty"`
}

// SizeReport is the size of a VM. A wanted size without a dimension leaves it as it is.
type SizeReport struct {
	// +optional
	VCPUs int `json:"vcpus,omitempty"`

	// Memory of the guest in bytes.
	// +optional
	Memory int64 `json:"memory,omitempty"`
}
