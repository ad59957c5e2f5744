package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeState is the state of one node's agent and of the launchers there. Its name is the node's.
// The agent of the node writes it, and an admission policy keeps agents from writing the object of
// another node.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nodest
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.status.node.mode`
// +kubebuilder:printcolumn:name="Launchers",type=integer,JSONPath=`.status.totals.launchers`
// +kubebuilder:printcolumn:name="VMs",type=integer,JSONPath=`.status.totals.vms`
// +kubebuilder:printcolumn:name="Refused",type=integer,JSONPath=`.status.totals.refused`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.node.version`
// +kubebuilder:printcolumn:name="Heartbeat",type=date,JSONPath=`.status.heartbeatTime`
type NodeState struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Status NodeStateStatus `json:"status,omitempty"`
}

// NodeStateList is a list of node states.
//
// +kubebuilder:object:root=true
type NodeStateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeState `json:"items"`
}

// NodeStateStatus has the answers of the agent's own socket: Node and Launchers have the JSON of
// package agentapi.
type NodeStateStatus struct {
	// HeartbeatTime is when the agent wrote the status. The agent writes at least once a minute.
	// +optional
	HeartbeatTime metav1.Time `json:"heartbeatTime,omitempty"`

	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// +optional
	Node NodeReport `json:"node,omitempty"`

	// Policy is the outcome of the NodePolicy for this node.
	// +optional
	Policy *PolicyReport `json:"policy,omitempty"`

	// Totals counts all launchers, also the omitted ones.
	// +optional
	Totals NodeTotals `json:"totals,omitempty"`

	// Launchers are the launchers by namespace and name.
	// +listType=atomic
	// +optional
	Launchers []LauncherReport `json:"launchers,omitempty"`

	// OmittedLaunchers counts the launchers that Launchers lacks, to bound the size of the object.
	// +optional
	OmittedLaunchers int `json:"omittedLaunchers,omitempty"`

	// DeletedPods are deleted pods of the node whose objects wait for the end of their VMs.
	// +listType=atomic
	// +optional
	DeletedPods []DeletedPodReport `json:"deletedPods,omitempty"`
}

// DeletedPodReport says whether a VM of a deleted pod remains on the node.
type DeletedPodReport struct {
	Pod PodReport `json:"pod"`

	// Ended is true if neither a process of the pod nor a VM of it remains on the node. Kubelet
	// starts no container of a deleted pod, so it stays true.
	Ended bool `json:"ended"`

	// Reason is why Ended is false.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// Types of conditions of a [NodeState].
const (
	// ConditionReady is true if the agent can decide about new launchers.
	ConditionReady = "Ready"
	// ConditionRuntimeConnected is true while the container runtime calls the agent through NRI.
	ConditionRuntimeConnected = "RuntimeConnected"
	// ConditionTrackerLoaded is true if the agent tracks VM processes in the kernel.
	ConditionTrackerLoaded = "TrackerLoaded"
)

// NodeStateMaxAge is the age from which on a state says nothing about its node: three heartbeats of
// the agent.
const NodeStateMaxAge = 3 * time.Minute

// Silent reports whether the node's agent has written no state lately.
func (n *NodeState) Silent(now time.Time) bool {
	return now.Sub(n.Status.HeartbeatTime.Time) > NodeStateMaxAge
}

// NodeReport is the agent's own state and the state of its connections.
type NodeReport struct {
	// Version of the agent.
	// +optional
	Version string `json:"version,omitempty"`

	// Mode is the mode of the policy: observe or enforce.
	// +optional
	Mode string `json:"mode,omitempty"`

	// Policy is the policy in force: the path of the file, or the NodePolicy's name and generation.
	// +optional
	Policy string `json:"policy,omitempty"`

	// +optional
	NRI NRIReport `json:"nri,omitempty"`

	// +optional
	Runtime RuntimeReport `json:"runtime,omitempty"`

	// +optional
	Memlock MemlockAccount `json:"memlock,omitempty"`

	// +optional
	Tracker TrackerReport `json:"tracker,omitempty"`

	// InPod is true for an agent in a pod of the cluster, and false for a unit of the node.
	// +optional
	InPod bool `json:"inPod,omitempty"`
}

// NRIReport is the agent's connection to the container runtime.
type NRIReport struct {
	// State is Disconnected, Connected or Synchronized.
	// +optional
	State string `json:"state,omitempty"`

	// Since is the start of State.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// Error is that of the latest attempt, while not synchronized.
	// +optional
	Error string `json:"error,omitempty"`
}

// RuntimeReport is the container runtime by its own introduction.
type RuntimeReport struct {
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Version string `json:"version,omitempty"`
}

// MemlockAccount is the lockable memory granted on the node, in bytes.
type MemlockAccount struct {
	// Granted is the memory that launchers with a memory lock can lock.
	// +optional
	Granted int64 `json:"granted,omitempty"`

	// Unlimited counts the launchers with an unlimited memory lock.
	// +optional
	Unlimited int `json:"unlimited,omitempty"`

	// Max is the policy's ceiling for Granted; absent: none.
	// +optional
	Max int64 `json:"max,omitempty"`

	// Unbounded counts launchers that no memory limit bounds. They may lock more than Granted.
	// +optional
	Unbounded int `json:"unbounded,omitempty"`
}

// TrackerReport is the part of the agent in the kernel.
type TrackerReport struct {
	Available bool `json:"available"`

	// Error is the reason if the tracker is not available.
	// +optional
	Error string `json:"error,omitempty"`

	// Processes and Groups are tracked processes and registered cgroups, now and at most.
	// +optional
	Processes int `json:"processes,omitempty"`
	// +optional
	MaxProcesses int `json:"maxProcesses,omitempty"`
	// +optional
	Groups int `json:"groups,omitempty"`
	// +optional
	MaxGroups int `json:"maxGroups,omitempty"`

	// LostEvents, LostProcesses, Stale and LeftOut count since the load of the tracker. They are
	// lost events, processes without space in the table, missed ends of processes, and calls that
	// the kernel skipped. The agent scans for all of them.
	// +optional
	LostEvents int64 `json:"lostEvents,omitempty"`
	// +optional
	LostProcesses int64 `json:"lostProcesses,omitempty"`
	// +optional
	Stale int64 `json:"stale,omitempty"`
	// +optional
	LeftOut int64 `json:"leftOut,omitempty"`
}

// NodeTotals counts the launchers of a node.
type NodeTotals struct {
	// Launchers counts the launchers that were not refused.
	// +optional
	Launchers int `json:"launchers,omitempty"`

	// VMs counts the VM processes.
	// +optional
	VMs int `json:"vms,omitempty"`

	// Refused counts the launchers that the agent refuses.
	// +optional
	Refused int `json:"refused,omitempty"`

	// WouldRefuse counts the running launchers that mode enforce would refuse.
	// +optional
	WouldRefuse int `json:"wouldRefuse,omitempty"`
}
