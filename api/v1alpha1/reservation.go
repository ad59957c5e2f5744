package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Finalizer keeps a reservation until the controller has released it. A deletion by mistake
// therefore lowers no quota. An uninstall removes the finalizer.
const Finalizer = "mooring.dev/reservation"

// MigrationReservation is the quota that one live migration needs in addition to the base of its
// namespace's quotas. Its name is the UID of the migration.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=mres
// +kubebuilder:printcolumn:name="VM",type=string,JSONPath=`.spec.vmi.name`
// +kubebuilder:printcolumn:name="Migration",type=string,JSONPath=`.spec.migration.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.spec.from`
// +kubebuilder:printcolumn:name="Waiting",type=string,JSONPath=`.status.conditions[?(@.type=="Waiting")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MigrationReservation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec MigrationReservationSpec `json:"spec"`

	// +optional
	Status MigrationReservationStatus `json:"status,omitempty"`
}

// MigrationReservationList is a list of reservations.
//
// +kubebuilder:object:root=true
type MigrationReservationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MigrationReservation `json:"items"`
}

// MigrationReservationSpec is the reserved quota and its migration. The controller writes all of it
// before it raises a quota.
type MigrationReservationSpec struct {
	// Migration is the VirtualMachineInstanceMigration.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the migration of a reservation cannot be changed"
	Migration Reference `json:"migration"`

	// VMI is the VirtualMachineInstance of the migration.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the VMI of a reservation cannot be changed"
	VMI Reference `json:"vmi"`

	// Source is the launcher pod of the VM when the controller made the reservation. It is absent
	// if the controller found none.
	// +optional
	Source *Reference `json:"source,omitempty"`

	// Pods are the pods that the migration adds to the namespace.
	// +listType=map
	// +listMapKey=role
	// +kubebuilder:validation:MinItems=1
	Pods []ReservedPod `json:"pods"`

	// From is the source of the charges.
	From ChargeOrigin `json:"from"`
}

// Reference names an object of the reservation's namespace.
type Reference struct {
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	UID types.UID `json:"uid"`
}

// ReservedPod is the charge of ResourceQuotas for one pod, with the pod's properties that their
// scopes match.
type ReservedPod struct {
	Role PodRole `json:"role"`

	// Charge uses the names of ResourceQuota: requests.cpu, limits.memory, pods, count/pods.
	Charge corev1.ResourceList `json:"charge"`

	// +optional
	BestEffort bool `json:"bestEffort,omitempty"`

	// Terminating is set for a pod with activeDeadlineSeconds.
	// +optional
	Terminating bool `json:"terminating,omitempty"`

	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// +optional
	CrossNamespaceAffinity bool `json:"crossNamespaceAffinity,omitempty"`
}

// PodRole is the role of a pod in a migration.
//
// +kubebuilder:validation:Enum=Launcher;Attachment
type PodRole string

// A migration adds a launcher pod. If the VM has hot-plugged disks, it also adds a pod that
// attaches them.
const (
	RoleLauncher   PodRole = "Launcher"
	RoleAttachment PodRole = "Attachment"
)

// ChargeOrigin is the source of a charge.
//
// +kubebuilder:validation:Enum=Estimated;Computed;Rendered
type ChargeOrigin string

const (
	// Estimated charges equal the charges of the source pod. The target may need more.
	Estimated ChargeOrigin = "Estimated"
	// Computed charges are the likely charges of KubeVirt's target, and for each resource at least
	// the charge of the source pod. A quota has rejected a target of that size.
	Computed ChargeOrigin = "Computed"
	// Rendered charges equal the charges of the target pod.
	Rendered ChargeOrigin = "Rendered"
)

// MigrationReservationStatus is the progress of a reservation.
type MigrationReservationStatus struct {
	// Phase is empty on a new reservation, which means Reserved.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Target is the target launcher pod, once it exists.
	// +optional
	Target *Reference `json:"target,omitempty"`

	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Phase is the progress of a reservation. Package quota has the state diagram.
//
// +kubebuilder:validation:Enum=Reserved;Granted;Charged;Releasing
type Phase string

const (
	// PhaseReserved means: the reservation exists, but not every quota has it yet.
	PhaseReserved Phase = "Reserved"
	// PhaseGranted means that status.hard of every quota includes the reservation.
	PhaseGranted Phase = "Granted"
	// PhaseCharged means: the target pod exists and uses the reservation.
	PhaseCharged Phase = "Charged"
	// PhaseReleasing means: the migration has ended, and the controller waits for the end of the
	// remaining pod.
	PhaseReleasing Phase = "Releasing"
)

// Types of conditions.
const (
	// ConditionGranted is true while status.hard of every quota includes the reservation, and has
	// room for the target pod or has the pod already.
	ConditionGranted = "Granted"
	// ConditionWaiting is true while a quota rejects the target pod. Its reason and message say
	// what is missing. It is never final: the controller goes on until the migration has ended.
	ConditionWaiting = "Waiting"
)
