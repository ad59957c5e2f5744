package quota

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// Plan is what is to be done in one namespace.
type Plan struct {
	// Actions are in the order in which they have to be done. After one that fails, also by
	// a conflict, nothing more of the plan may be done: what is has to be read and planned
	// for anew.
	Actions []Action

	// Needed is how many of the Actions, the first ones, quotas depend on. The others only
	// tell what is, and may be left to a later plan.
	Needed int

	// Reports are events, for changes that the actions make. They are told after the action
	// that their Reservation is in.
	Reports []Report

	// Overruns are the quotas of which more is used than they allow, while nothing is
	// reserved. It is a state, not a change: who reports it does so when it changes.
	Overruns []Overrun

	// Faults are what keeps a quota or a pod from being dealt with. It is a state, too.
	Faults []Fault

	// Live says that something may be to be released: the snapshot has to be read live
	// ([Snapshot.Live]) and planned for once more, after the actions.
	Live bool

	// Again is when the plan changes by time alone; zero: it does not.
	Again time.Time
}

// Action is one write: [CreateReservation], [UpdateReservation], [UpdateStatus],
// [ReleaseReservation], [WriteQuota] or [AnnotateNamespace].
type Action interface{ action() }

// CreateReservation enters a reservation in the ledger, with its finalizer. Its status is
// left out.
type CreateReservation struct {
	Reservation *v1alpha1.MigrationReservation
}

// UpdateReservation writes metadata and spec, at the resourceVersion that the object has.
type UpdateReservation struct {
	Reservation *v1alpha1.MigrationReservation
}

// UpdateStatus writes the status, at the resourceVersion that the object has. Where
// the same plan has an UpdateReservation for it, at the one that this has led to.
type UpdateStatus struct {
	Reservation *v1alpha1.MigrationReservation
}

// ReleaseReservation deletes a reservation, with its UID and resourceVersion as
// preconditions, and then takes its finalizer away. Between the two it still counts.
type ReleaseReservation struct {
	Reservation *v1alpha1.MigrationReservation
	Why         string
}

// WriteQuota sets spec.hard and annotations of a ResourceQuota in one write, at
// ResourceVersion.
type WriteQuota struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Hard            corev1.ResourceList // all of it
	Annotations     Annotations
}

// AnnotateNamespace sets annotations of the namespace.
type AnnotateNamespace struct{ Annotations Annotations }

func (CreateReservation) action()  {}
func (UpdateReservation) action()  {}
func (UpdateStatus) action()       {}
func (ReleaseReservation) action() {}
func (WriteQuota) action()         {}
func (AnnotateNamespace) action()  {}

// Annotations are the ones to write. An empty value: the annotation is taken away.
type Annotations map[string]string

// Apply returns what the annotations become. The map that is given is not changed.
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

// Apply returns the quota as it is to be written. The one that is given is not changed.
func (w WriteQuota) Apply(to *corev1.ResourceQuota) *corev1.ResourceQuota {
	out := to.DeepCopy()
	out.ResourceVersion = w.ResourceVersion
	out.Spec.Hard = w.Hard.DeepCopy()
	out.Annotations = w.Annotations.Apply(to.Annotations)
	return out
}

// Report is an event to be told about a migration.
type Report struct {
	Type        string // corev1.EventTypeNormal or EventTypeWarning
	Reason      string
	Message     string
	Reservation string             // name: the migration's UID
	Migration   v1alpha1.Reference // what the event is about
}

// Reasons of reports.
const (
	ReasonReserved = "QuotaReserved"
	ReasonGranted  = "QuotaGranted"
	ReasonGrown    = "QuotaReservationGrown"
	ReasonReleased = "QuotaReleased"
	ReasonTimedOut = "QuotaTimedOut"
)

// Overrun is a quota of which more is used than its base allows, with nothing reserved:
// pods that a migration made are larger than those that they replaced, or an
// administrator has lowered the quota.
type Overrun struct {
	Quota  string
	Excess corev1.ResourceList
}

// Fault is what keeps the planner from dealing with an object, which it leaves alone.
type Fault struct {
	Kind string // ResourceQuota, Namespace or VirtualMachineInstanceMigration
	Name string
	Err  error
}
