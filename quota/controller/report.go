package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/internal/plaintext"
	"github.com/mooring-vm/mooring/quota"
)

// eventAction is the action named in Events.
const eventAction = "ScaleQuota"

// Reasons of Events on quotas and on faulty objects. Package quota has the reasons of Events on
// migrations.
const (
	ReasonOverrun = "QuotaOverrun"
	ReasonFault   = "QuotaFault"

	// ReasonOpened and ReasonClosed report on a namespace that an administrator lets pods pass the
	// guard, and the end of this.
	ReasonOpened = "QuotaGuardOpened"
	ReasonClosed = "QuotaGuardClosed"
)

// report writes the Events caused by a completed action.
func (r *Reconciler) report(
	ctx context.Context, ns *namespace, s quota.Snapshot, done quota.Action, reports []quota.Report,
) {
	name, reasons := causes(done)
	if created, ok := done.(quota.CreateReservation); ok {
		ns.reservedAt[created.Reservation.Name] = r.Now()
	}
	for _, report := range reports {
		if report.Reservation != name || !slices.Contains(reasons, report.Reason) {
			continue
		}
		migration := &corev1.ObjectReference{
			APIVersion: kubevirtv1.GroupVersion.String(),
			Kind:       kubevirtv1.VirtualMachineInstanceMigrationGroupVersionKind.Kind,
			Namespace:  ns.name, Name: report.Migration.Name, UID: report.Migration.UID,
		}
		if report.Reason == quota.ReasonGranted {
			r.observeGrant(ns, name)
		}
		r.event(migration, report.Type, report.Reason, report.Message+r.explain(ctx, s, report))
	}
}

// observeGrant records the time since the reservation. The controller does not know it of
// reservations by an earlier leader.
func (r *Reconciler) observeGrant(ns *namespace, reservation string) {
	if at, known := ns.reservedAt[reservation]; known {
		r.Metrics.observeGrant(r.Now().Sub(at))
		delete(ns.reservedAt, reservation)
	}
}

// causes returns an action's reservation and Event reasons.
func causes(a quota.Action) (reservation string, reasons []string) {
	switch a := a.(type) {
	case quota.CreateReservation:
		return a.Reservation.Name, []string{quota.ReasonReserved, quota.ReasonWouldReserve}
	case quota.UpdateReservation:
		return a.Reservation.Name, []string{quota.ReasonGrown, quota.ReasonWouldReserveMore}
	case quota.UpdateStatus:
		return a.Reservation.Name, []string{quota.ReasonGranted, quota.ReasonWaiting}
	case quota.ReleaseReservation:
		return a.Reservation.Name, []string{quota.ReasonReleased, quota.ReasonWouldRelease}
	}
	return "", nil
}

func (r *Reconciler) event(on *corev1.ObjectReference, kind, reason, message string) {
	r.Logger.Info(message, "reason", reason, "kind", on.Kind, "namespace", on.Namespace,
		"name", on.Name)
	r.Events.Eventf(on, nil, kind, reason, eventAction, "%s", plaintext.Cut(message, plaintext.MaxNote))
}

// states are the overruns, faults and migrations of a namespace.
type states struct {
	open     time.Time // until when pods pass the guard
	reserved int
	waiting  []quota.Wait
	overruns map[string]overrun // by quota
	faults   map[corev1.ObjectReference]string
}

// overrun is the overrun of a quota. Kubernetes lowers the use with a delay, so the controller
// reports an overrun only after minOverrun.
type overrun struct {
	resources string // a change of the amounts alone is no new overrun
	excess    corev1.ResourceList
	since     time.Time
	reported  bool
}

// minOverrun is how long an overrun must last.
const minOverrun = 30 * time.Second

func (before states) next(namespace string, plan quota.Plan, at time.Time) states {
	now := states{open: plan.Open, reserved: plan.Reserved, waiting: plan.Waits,
		overruns: map[string]overrun{}, faults: map[corev1.ObjectReference]string{}}
	for _, o := range plan.Overruns {
		is := overrun{resources: strings.Join(names(o.Excess), ", "), excess: o.Excess, since: at}
		if was := before.overruns[o.Quota]; was.resources == is.resources {
			is.since, is.reported = was.since, was.reported
		}
		now.overruns[o.Quota] = is
	}
	for _, f := range plan.Faults {
		now.faults[faultReference(namespace, f)] = f.Err.Error()
	}
	return now
}

func names(list corev1.ResourceList) []string {
	var all []string
	for name := range maps.Keys(list) {
		all = append(all, string(name))
	}
	slices.Sort(all)
	return all
}

func faultReference(namespace string, f quota.Fault) corev1.ObjectReference {
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: f.Kind, Namespace: namespace,
		Name: f.Name}
	switch f.Kind {
	case "Namespace":
		ref.Namespace = ""
	case "ResourceQuota":
	case "MigrationReservation":
		ref.APIVersion = v1alpha1.GroupVersion().String()
	default:
		ref.APIVersion = kubevirtv1.GroupVersion.String()
	}
	return ref
}

// reportStates reports new overruns and faults, and returns when the next overrun is due; zero:
// none.
func (r *Reconciler) reportStates(ns *namespace, plan quota.Plan) (again time.Time) {
	now := ns.states.next(ns.name, plan, r.Now())
	for name, o := range now.overruns {
		lasted := o.since.Add(minOverrun)
		switch {
		case o.reported:
		case r.Now().Before(lasted):
			again = lasted
		default:
			r.event(reference("ResourceQuota", ns.name, name), corev1.EventTypeWarning,
				ReasonOverrun, fmt.Sprintf("use exceeds the quota's base by %s, and nothing is "+
					"reserved for migrations", quota.FormatAmounts(o.excess)))
			o.reported = true
			now.overruns[name] = o
		}
	}
	for ref, text := range now.faults {
		if ns.states.faults[ref] != text {
			r.event(&ref, corev1.EventTypeWarning, ReasonFault, text)
		}
	}
	r.reportOpen(ns, now.open)
	r.Metrics.setStates(ns.name, ns.states, now)
	ns.states = now
	return again
}

// reportOpen reports a change of the time until which pods pass the guard.
func (r *Reconciler) reportOpen(ns *namespace, until time.Time) {
	on := reference("Namespace", "", ns.name)
	switch {
	case until.Equal(ns.states.open):
	case until.IsZero():
		r.event(on, corev1.EventTypeNormal, ReasonClosed, "pods are checked against the quota "+
			"reserved for live migrations again")
	default:
		r.event(on, corev1.EventTypeWarning, ReasonOpened, fmt.Sprintf("annotation %s lets pods "+
			"take quota reserved for live migrations until %s", quota.OpenAnnotation,
			until.UTC().Format(time.RFC3339)))
	}
}

func reference(kind, namespace, name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: namespace, Name: name}
}
