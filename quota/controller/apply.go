package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// apply runs the actions of a plan in order up to the first failure, and reports the completed
// ones. Beyond Plan.Required it continues only if fewer than maxReporters workers do the same. all
// is true if every action ran.
func (r *Reconciler) apply(
	ctx context.Context, ns *namespace, s quota.Snapshot, plan quota.Plan,
) (all bool, err error) {
	w := &writer{Reconciler: r, ns: ns, snapshot: s, versions: map[string]string{}}
	if err := w.applyAll(ctx, plan.Actions[:plan.Required], plan.Reports); err != nil ||
		plan.Required == len(plan.Actions) {
		return err == nil, err
	}
	select {
	case r.reporting <- struct{}{}:
		defer func() { <-r.reporting }()
		err := w.applyAll(ctx, plan.Actions[plan.Required:], plan.Reports)
		return err == nil, err
	default:
		return false, nil
	}
}

// writer runs one plan.
type writer struct {
	*Reconciler
	ns       *namespace
	snapshot quota.Snapshot
	versions map[string]string // resourceVersions of reservations after this plan's writes
}

// applyAll runs actions up to the first failure.
func (w *writer) applyAll(
	ctx context.Context, actions []quota.Action, reports []quota.Report,
) error {
	for _, action := range actions {
		if err := w.applyOne(ctx, action); err != nil {
			return err
		}
		w.report(ctx, w.ns, w.snapshot, action, reports)
	}
	return nil
}

func (w *writer) applyOne(ctx context.Context, action quota.Action) error {
	switch a := action.(type) {
	case quota.CreateReservation:
		return w.create(ctx, a.Reservation)
	case quota.UpdateReservation:
		return w.update(ctx, a.Reservation)
	case quota.UpdateStatus:
		return w.updateStatus(ctx, a.Reservation)
	case quota.ReleaseReservation:
		return w.release(ctx, a.Reservation)
	case quota.WriteQuota:
		return w.writeQuota(ctx, a)
	case quota.LabelNamespace:
		return w.labelNamespace(ctx, a)
	case quota.AnnotateNamespace:
		return w.annotateNamespace(ctx, a)
	}
	return fmt.Errorf("running a plan: unknown action %T", action)
}

func (w *writer) create(ctx context.Context, planned *v1alpha1.MigrationReservation) error {
	o := planned.DeepCopy()
	return w.write(kindReservation, o, "creating", func() error { return w.Client.Create(ctx, o) })
}

func (w *writer) update(ctx context.Context, planned *v1alpha1.MigrationReservation) error {
	o := w.latest(planned)
	return w.write(kindReservation, o, "updating", func() error { return w.Client.Update(ctx, o) })
}

func (w *writer) updateStatus(ctx context.Context, planned *v1alpha1.MigrationReservation) error {
	o := w.latest(planned)
	return w.write(kindStatus, o, "updating the status of",
		func() error { return w.Client.Status().Update(ctx, o) })
}

// release deletes a reservation if necessary and then removes its finalizer.
func (w *writer) release(ctx context.Context, planned *v1alpha1.MigrationReservation) error {
	o := w.latest(planned)
	if o.DeletionTimestamp == nil {
		unchanged := client.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion}
		if err := w.count(kindReservation, w.Client.Delete(ctx, o, unchanged)); err != nil {
			return fmt.Errorf("deleting reservation %s: %w", o.Name, err)
		}
	}
	if controllerutil.ContainsFinalizer(o, v1alpha1.Finalizer) {
		patch := withoutFinalizer(o, v1alpha1.Finalizer)
		if err := w.count(kindReservation,
			client.IgnoreNotFound(w.Client.Patch(ctx, o, patch))); err != nil {
			return fmt.Errorf("removing the finalizer of reservation %s: %w", o.Name, err)
		}
	}
	w.ns.recordRelease(kindReservation, planned, w.Now())
	delete(w.ns.reservedAt, planned.Name)
	return nil
}

func (w *writer) writeQuota(ctx context.Context, a quota.WriteQuota) error {
	for _, q := range w.snapshot.Quotas {
		if q.UID == a.UID {
			o := &corev1.ResourceQuota{}
			o.Namespace, o.Name = q.Namespace, q.Name
			return w.write(kindQuota, o, "writing",
				func() error {
					return w.Client.Patch(ctx, o, quotaPatch(q, a),
						client.FieldOwner(quota.FieldManager))
				})
		}
	}
	return fmt.Errorf("running a plan: quota %q is not in its snapshot", a.Name)
}

func (w *writer) annotateNamespace(ctx context.Context, a quota.AnnotateNamespace) error {
	o := &corev1.Namespace{}
	o.Name = w.ns.name
	patch := annotationsPatch(w.snapshot.Namespace.UID, a.Annotations)
	return w.write(kindNamespace, o, "annotating", func() error {
		return w.Client.Patch(ctx, o, patch)
	})
}

func (w *writer) labelNamespace(ctx context.Context, a quota.LabelNamespace) error {
	o := &corev1.Namespace{}
	o.Name = w.ns.name
	patch := labelPatch(w.snapshot.Namespace.UID, a.Reserved)
	return w.write(kindNamespace, o, "labelling", func() error {
		return w.Client.Patch(ctx, o, patch)
	})
}

// latest returns a reservation at the resourceVersion after this plan's writes.
func (w *writer) latest(planned *v1alpha1.MigrationReservation) *v1alpha1.MigrationReservation {
	o := planned.DeepCopy()
	if version, ok := w.versions[o.Name]; ok {
		o.ResourceVersion = version
	}
	return o
}

// write runs do, which fills o with the stored object, and records the write.
func (w *writer) write(k kind, o client.Object, doing string, do func() error) error {
	name := o.GetName()
	if err := w.count(k, do()); err != nil {
		return fmt.Errorf("%s %s %q: %w", doing, k.object(), name, err)
	}
	if k.object() == kindReservation {
		w.versions[name] = o.GetResourceVersion()
	}
	w.ns.recordWrite(k.object(), o, w.Now())
	return nil
}

func (w *writer) count(k kind, err error) error {
	w.Metrics.countWrite(k, err)
	return err
}
