package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Finalizer keeps a reservation until the controller has released it, so that a quota is
// never lowered because somebody deleted the wrong object. An uninstall removes it.
const Finalizer = "mooring.dev/reservation"

// MigrationReservation is what one live migration needs of its namespace's quotas beyond
// their base. Its name is the UID of the migration.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=mres
// +kubebuilder:printcolumn:name="VM",type=string,JSONPath=`.spec.vmi.name`
// +kubebuilder:printcolumn:name="Migration",type=string,JSONPath=`.spec.migration.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.spec.from`
// +kubebuilder:printcolumn:name="Deadline",type=date,JSONPath=`.spec.deadline`,priority=1
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

// MigrationReservationSpec is what is reserved, and for whom. All of it is written before
// any quota is raised for it.
type MigrationReservationSpec struct {
	// Migration is the VirtualMachineInstanceMigration.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the migration of a reservation cannot be changed"
	Migration Reference `json:"migration"`

	// VMI is the VirtualMachineInstance that is migrated.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the VMI of a reservation cannot be changed"
	VMI Reference `json:"vmi"`

	// Source is the launcher pod that the VM ran in when the reservation was made. Absent
	// where there was none to be seen.
	// +optional
	Source *Reference `json:"source,omitempty"`

	// Pods are the pods that the migration adds to the namespace.
	// +listType=map
	// +listMapKey=role
	// +kubebuilder:validation:MinItems=1
	Pods []ReservedPod `json:"pods"`

	// From is where the charges were read from.
	From ChargeOrigin `json:"from"`

	// Deadline is set for a migration that a quota rejects. If there is no target pod by
	// then, the reservation expires: it holds nothing any more.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
}

// Reference names an object of the reservation's namespace.
type Reference struct {
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	UID types.UID `json:"uid"`
}

// ReservedPod is what ResourceQuotas charge for one pod, and what their scopes ask about.
type ReservedPod struct {
	Role PodRole `json:"role"`

	// Charge is in the names of ResourceQuota: requests.cpu, limits.memory, pods, count/pods.
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

// PodRole says what a pod is for.
//
// +kubebuilder:validation:Enum=Launcher;Attachment
type PodRole string

// A migration adds a launcher pod, and one that holds hot-plugged disks where the VM has any.
const (
	RoleLauncher   PodRole = "Launcher"
	RoleAttachment PodRole = "Attachment"
)

// ChargeOrigin says where a charge was read from.
//
// +kubebuilder:validation:Enum=Estimated;Computed;Rendered
type ChargeOrigin string

const (
	// Estimated charges are those of the source pod. The target may need more.
	Estimated ChargeOrigin = "Estimated"
	// Computed charges are those that KubeVirt is likely to make the target with, and of each
	// resource at least those of the source pod. A quota has rejected a target of that size.
	Computed ChargeOrigin = "Computed"
	// Rendered charges are those of the target pod itself.
	Rendered ChargeOrigin = "Rendered"
)

// MigrationReservationStatus is how far a reservation has come.
type MigrationReservationStatus struct {
	// Phase is empty on a reservation that has just been made: Reserved.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Target is the launcher pod that the VM moves to, once there is one.
	// +optional
	Target *Reference `json:"target,omitempty"`

	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Phase is how far a reservation has come. Package quota has the diagram.
//
// +kubebuilder:validation:Enum=Reserved;Granted;Charged;Releasing;Expired
type Phase string

const (
	// PhaseReserved is written, and not in force in every quota yet.
	PhaseReserved Phase = "Reserved"
	// PhaseGranted is in force: status.hard of every quota has it.
	PhaseGranted Phase = "Granted"
	// PhaseCharged is used: the target pod is there.
	PhaseCharged Phase = "Charged"
	// PhaseReleasing waits, after the migration's end, for the pod that has to go.
	PhaseReleasing Phase = "Releasing"
	// PhaseExpired holds nothing: it only keeps the migration from being reserved for again.
	PhaseExpired Phase = "Expired"
)

// Types of conditions.
const (
	// ConditionGranted is true while status.hard of every quota has the reservation.
	ConditionGranted = "Granted"
	// ConditionTimedOut is true when the deadline has passed without a target pod.
	ConditionTimedOut = "TimedOut"
)
