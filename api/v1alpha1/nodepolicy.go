package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// NodePolicy is the policy of the nodes with matching labels. It limits the requests of pods there.
// Agents apply a change without a restart. Package policy has the meaning of the fields and checks
// their values.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=npol
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Applied",type=integer,JSONPath=`.status.applied`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NodePolicySpec `json:"spec"`
	// +optional
	Status NodePolicyStatus `json:"status,omitempty"`
}

// NodePolicyList is a list of node policies.
//
// +kubebuilder:object:root=true
type NodePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodePolicy `json:"items"`
}

// NodePolicySpec has the nodes of a policy, and the fields of a policy file.
type NodePolicySpec struct {
	// NodeSelector selects nodes by their labels; absent or empty: all nodes.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// Priority decides between the policies that select a node: the highest one applies. A node
	// with two highest ones keeps its policy, and reports both.
	// +kubebuilder:validation:Minimum=-1000000
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Priority int32 `json:"priority,omitempty"`

	// +kubebuilder:validation:Enum=observe;enforce
	// +kubebuilder:default=observe
	// +optional
	Mode string `json:"mode,omitempty"`

	// +optional
	Memlock *NodePolicyMemlock `json:"memlock,omitempty"`
	// +optional
	Lifecycle *NodePolicyLifecycle `json:"lifecycle,omitempty"`
	// +optional
	Headroom *NodePolicyHeadroom `json:"headroom,omitempty"`

	// +listType=map
	// +listMapKey=name
	// +optional
	Profiles []NodePolicyProfile `json:"profiles,omitempty"`

	// +listType=map
	// +listMapKey=name
	// +optional
	Rules []NodePolicyRule `json:"rules,omitempty"`
}

// NodePolicyMemlock bounds the locked memory of a node.
type NodePolicyMemlock struct {
	// NodeMax is the ceiling for the sum over all launchers; absent: none.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="want more than zero; leave it out for no ceiling"
	// +optional
	NodeMax *resource.Quantity `json:"nodeMax,omitempty"`

	// +kubebuilder:validation:Enum=report;prlimit
	// +optional
	Repair string `json:"repair,omitempty"`

	// RequireMemoryLimit refuses a memory lock to a launcher without memory limit.
	// +optional
	RequireMemoryLimit bool `json:"requireMemoryLimit,omitempty"`
}

// NodePolicyLifecycle says how VM processes are recognised and stopped.
//
// +kubebuilder:validation:XValidation:rule="!has(self.gracePeriod) || !has(self.maxGracePeriod) || duration(self.gracePeriod) <= duration(self.maxGracePeriod)",message="maxGracePeriod: want at least gracePeriod"
type NodePolicyLifecycle struct {
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=set
	// +optional
	Emulators []string `json:"emulators,omitempty"`
	// +kubebuilder:validation:Format=duration
	// +optional
	GracePeriod string `json:"gracePeriod,omitempty"`
	// +kubebuilder:validation:Format=duration
	// +optional
	MaxGracePeriod string `json:"maxGracePeriod,omitempty"`
	// +kubebuilder:validation:Format=duration
	// +optional
	TermPeriod string `json:"termPeriod,omitempty"`
	// +kubebuilder:validation:Enum=report;stop
	// +optional
	Unattended string `json:"unattended,omitempty"`
	// +kubebuilder:validation:Enum=report;stop
	// +optional
	Hung string `json:"hung,omitempty"`
	// FenceAfter is a duration, or 0 for never.
	// +optional
	FenceAfter *intstr.IntOrString `json:"fenceAfter,omitempty"`
	// +optional
	Libvirt *NodePolicyLibvirt `json:"libvirt,omitempty"`
}

// NodePolicyLibvirt is the libvirt of the node.
type NodePolicyLibvirt struct {
	// +optional
	Records string `json:"records,omitempty"`
	// +kubebuilder:validation:MaxLength=107
	// +optional
	Socket string `json:"socket,omitempty"`
	// RequireOwner are globs for the names of domains that start only with an active launcher.
	// +listType=set
	// +optional
	RequireOwner []string `json:"requireOwner,omitempty"`
}

// NodePolicyHeadroom is the default range for the growth of VMs.
type NodePolicyHeadroom struct {
	// +optional
	MemoryCapacity *resource.Quantity `json:"memoryCapacity,omitempty"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8192
	// +optional
	CPUCapacity *int32 `json:"cpuCapacity,omitempty"`
}

// NodePolicyProfile recognises launcher pods by their labels.
type NodePolicyProfile struct {
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// +kubebuilder:validation:MinProperties=1
	PodLabels map[string]string `json:"podLabels"`
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container"`
}

// NodePolicyRule limits the requests of the pods that it matches. The first matching rule decides.
type NodePolicyRule struct {
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// +kubebuilder:validation:MinItems=1
	// +listType=set
	Namespaces []string `json:"namespaces"`
	// +listType=set
	// +optional
	ServiceAccounts []string `json:"serviceAccounts,omitempty"`
	// +optional
	Memlock *NodePolicyPodMemlock `json:"memlock,omitempty"`
	// +optional
	Resize *NodePolicyPodResize `json:"resize,omitempty"`
	// +listType=set
	// +optional
	CgroupFiles []string `json:"cgroupFiles,omitempty"`
	// +listType=set
	// +optional
	Domains []string `json:"domains,omitempty"`
}

// NodePolicyPodMemlock is the locked memory that one pod may ask for.
type NodePolicyPodMemlock struct {
	// +optional
	Max *resource.Quantity `json:"max,omitempty"`
	// +optional
	Unlimited bool `json:"unlimited,omitempty"`
}

// NodePolicyPodResize bounds the size that one pod may ask for in a live resize.
type NodePolicyPodResize struct {
	// MaxMemory is the largest memory of the guest; absent: no bound.
	// +optional
	MaxMemory *resource.Quantity `json:"maxMemory,omitempty"`
	// MaxVCPUs is the largest number of vCPUs; absent: no bound.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8192
	// +optional
	MaxVCPUs *int32 `json:"maxVCPUs,omitempty"`
}

// NodePolicyStatus summarises the reports of the nodes for which the policy is the first choice.
type NodePolicyStatus struct {
	// ObservedGeneration is the generation of the spec that the counts are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Nodes = Applied + Failed + Pending. Pending nodes have not reported this generation.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// +optional
	Applied int32 `json:"applied,omitempty"`
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// +optional
	Pending int32 `json:"pending,omitempty"`

	// AppliedNodes are nodes that applied the policy, the first 50 by name.
	// +listType=atomic
	// +optional
	AppliedNodes []string `json:"appliedNodes,omitempty"`

	// Failures are nodes that did not apply the policy, the first 20 by name.
	// +listType=map
	// +listMapKey=node
	// +optional
	Failures []NodePolicyFailure `json:"failures,omitempty"`

	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodePolicyFailure is a node that did not apply a policy.
type NodePolicyFailure struct {
	Node   string `json:"node"`
	Reason string `json:"reason"`
}

// ConditionApplied of a [NodePolicy] is true if each of its nodes has applied its present
// generation.
const ConditionApplied = "Applied"

// PolicyReport is the outcome of the NodePolicy that a node should apply.
type PolicyReport struct {
	// Name of the NodePolicy; absent: none selects the node, and the policy file is in force.
	// +optional
	Name string `json:"name,omitempty"`
	// UID of the NodePolicy. One that was deleted and made again has another UID.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// Generation of the NodePolicy.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// Applied is false if the policy in force before stays.
	Applied bool `json:"applied"`
	// Reason says why the policy is not applied, or which part waits for the agent's next start.
	// +optional
	Reason string `json:"reason,omitempty"`
}
