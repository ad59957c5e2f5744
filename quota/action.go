package quota

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// Plan holds the writes for one namespace.
type Plan struct {
	// Actions must run in order. After a failure or conflict, the caller must stop, read the
	// namespace and plan again.
	Actions []Action

	// Required is the number of leading Actions that quotas depend on. The other actions only
	// report, and a later plan can do them.
	Required int

	// Withheld are the writes of quotas that mode observe leaves out. They are a state: report their
	// changes. Mode enforce has none.
	Withheld []WriteQuota

	// Reports are Events about changes. Write an Event after the action of its reservation.
	Reports []Report

	// Overruns are quotas with more use than base and without reservations. An overrun is a state:
	// report its changes.
	Overruns []Overrun

	// Reserved is the number of migrations with a reservation for a pod, see [BlocksEdits]. Waits
	// lists the migrations with a rejected target pod. Both are states.
	Reserved int
	Waits    []Wait

	// Faults are invalid quotas or annotations. A fault is a state, too.
	Faults []Fault

	// NeedsLive is set if something may have to be released. After the actions, the caller reads a
	// live snapshot ([Snapshot.Live]) and plans again.
	NeedsLive bool

	// ProveGuard is set if the plan leaves out the raise of a quota because of
	// [Snapshot.Unguarded]. After the actions, the caller makes a dry run of a [Probe] and plans
	// again.
	ProveGuard bool

	// Open is until when pods pass the guard of the namespace, see [OpenAnnotation]; zero: they do
	// not. It is a state.
	Open time.Time

	// NextPlan is the time at which the plan changes without any event; zero: never.
	NextPlan time.Time
}

// Action is one write: [CreateReservation], [UpdateReservation], [UpdateStatus],
// [ReleaseReservation], [WriteQuota], [LabelNamespace] or [AnnotateNamespace].
type Action interface{ action() }

// CreateReservation adds a reservation with its finalizer to the ledger, without a status.
type CreateReservation struct {
	Reservation *v1alpha1.MigrationReservation
}

// UpdateReservation writes metadata and spec at the object's resourceVersion.
type UpdateReservation struct {
	Reservation *v1alpha1.MigrationReservation
}

// UpdateStatus writes the status at the object's resourceVersion, or at the new one after an
// UpdateReservation of the same plan.
type UpdateStatus struct {
	Reservation *v1alpha1.MigrationReservation
}

// ReleaseReservation deletes a reservation, with UID and resourceVersion as preconditions, and then
// removes its finalizer. The reservation counts until the finalizer is gone.
type ReleaseReservation struct {
	Reservation *v1alpha1.MigrationReservation
	Why         string
}

// WriteQuota sets spec.hard and annotations of a ResourceQuota in one write at ResourceVersion.
// Only a write that leaves spec.hard unchanged can set managedFields, because the API server makes
// the writer the owner of each changed field.
type WriteQuota struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Hard            corev1.ResourceList // the complete spec.hard
	Annotations     Annotations
	ManagedFields   []metav1.ManagedFieldsEntry // the complete managedFields; nil: unchanged
}

// LabelNamespace sets [ReservedLabel] of the namespace, or removes it.
type LabelNamespace struct{ Reserved bool }

// AnnotateNamespace sets annotations of the namespace.
type AnnotateNamespace struct{ Annotations Annotations }

func (CreateReservation) action()  {}
func (UpdateReservation) action()  {}
func (UpdateStatus) action()       {}
func (ReleaseReservation) action() {}
func (WriteQuota) action()         {}
func (LabelNamespace) action()     {}
func (AnnotateNamespace) action()  {}

// Annotations are annotations to write. An empty value removes the annotation.
type Annotations map[string]string

// Apply returns a copy of the map with these annotations.
func (a Annotations) Apply(to map[string]string) map[string]string {
	out := maps.Clone(to)
	if out == nil {
		out = map[string]string{}
	}
	for key, value := range a {
		if value == "" {
			delete(out, key)
			continue
		}
		out[key] = value
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// Apply returns a changed copy of the quota.
func (w WriteQuota) Apply(to *corev1.ResourceQuota) *corev1.ResourceQuota {
	out := to.DeepCopy()
	out.ResourceVersion = w.ResourceVersion
	out.Spec.Hard = w.Hard.DeepCopy()
	out.Annotations = w.Annotations.Apply(to.Annotations)
	if w.ManagedFields != nil {
		out.ManagedFields = w.ManagedFields
	}
	return out
}

// Report is an Event about a migration.
type Report struct {
	Type        string // corev1.EventTypeNormal or EventTypeWarning
	Reason      string
	Message     string
	Reservation string             // name: the migration's UID
	Migration   v1alpha1.Reference // object of the Event
	Growth      *Growth            // of a larger target pod; nil: unknown, or another report
}

// Reasons of reports. Those beginning with Would are reports of mode observe.
const (
	ReasonReserved = "QuotaReserved"
	ReasonGranted  = "QuotaGranted"
	ReasonGrown    = "QuotaReservationGrown"
	ReasonReleased = "QuotaReleased"
	ReasonWaiting  = "QuotaStillRejects"

	ReasonWouldReserve     = "WouldReserve"
	ReasonWouldReserveMore = "WouldReserveMore"
	ReasonWouldRelease     = "WouldRelease"
)

// Wait is a migration whose target pod a quota rejects.
type Wait struct {
	Reason string // of the condition Waiting, one of [WaitingReasons]
	Since  time.Time
}

// Overrun is a quota with more use than base and without reservations. Causes: a target pod larger
// than its source, or an administrator lowered the quota.
type Overrun struct {
	Quota  string
	Excess corev1.ResourceList
}

// Fault is an object that the planner cannot use and therefore skips.
type Fault struct {
	Kind string // ResourceQuota, Namespace or VirtualMachineInstanceMigration
	Name string
	Err  error
}
