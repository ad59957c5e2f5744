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

// apply does the actions of a plan in their order, up to the first that fails, and tells
// the reports of those that are done. What is not needed it leaves where enough workers are
// at that, and says whether it has done all.
func (r *Reconciler) apply(ctx context.Context, ns *namespace, s quota.Snapshot, plan quota.Plan) (all bool, err error) {
	w := &writer{Reconciler: r, ns: ns, snapshot: s, versions: map[string]string{}}
	if err := w.all(ctx, plan.Actions[:plan.Required], plan.Reports); err != nil || plan.Required == len(plan.Actions) {
		return err == nil, err
	}
	select {
	case r.telling <- struct{}{}:
		defer func() { <-r.telling }()
		err := w.all(ctx, plan.Actions[plan.Required:], plan.Reports)
		return err == nil, err
	default:
		return false, nil
	}
}

// writer carries out one plan.
type writer struct {
	*Reconciler
	ns       *namespace
	snapshot quota.Snapshot
	versions map[string]string // that this plan has led reservations to
}

// all does actions up to the first that fails.
func (w *writer) all(ctx context.Context, actions []quota.Action, reports []quota.Report) error {
	for _, action := range actions {
		if err := w.do(ctx, action); err != nil {
			return err
		}
		w.report(w.ns.name, action, reports)
	}
	return nil
}

func (w *writer) do(ctx context.Context, action quota.Action) error {
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
	case quota.AnnotateNamespace:
		return w.annotateNamespace(ctx, a)
	}
	return fmt.Errorf("carrying out a plan: %T is not known", action)
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
	return w.write(kindStatus, o, "updating the status of", func() error { return w.Client.Status().Update(ctx, o) })
}

// release deletes a reservation, unless that is done, and then lets go of it.
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
		if err := w.count(kindReservation, client.IgnoreNotFound(w.Client.Patch(ctx, o, patch))); err != nil {
			return fmt.Errorf("letting go of reservation %s: %w", o.Name, err)
		}
	}
	w.ns.released(kindReservation, planned, w.Now())
	return nil
}

func (w *writer) writeQuota(ctx context.Context, a quota.WriteQuota) error {
	for _, q := range w.snapshot.Quotas {
		if q.UID == a.UID {
			o := &corev1.ResourceQuota{}
			o.Namespace, o.Name = q.Namespace, q.Name
			return w.write(kindQuota, o, "writing", func() error { return w.Client.Patch(ctx, o, quotaPatch(q, a)) })
		}
	}
	return fmt.Errorf("carrying out a plan: quota %q is not in what it was made from", a.Name)
}

func (w *writer) annotateNamespace(ctx context.Context, a quota.AnnotateNamespace) error {
	o := &corev1.Namespace{}
	o.Name = w.ns.name
	patch := annotationsPatch(w.snapshot.Namespace.UID, a.Annotations)
	return w.write(kindNamespace, o, "annotating", func() error { return w.Client.Patch(ctx, o, patch) })
}

// latest is a reservation at the version that this plan has led it to.
func (w *writer) latest(planned *v1alpha1.MigrationReservation) *v1alpha1.MigrationReservation {
	o := planned.DeepCopy()
	if version, ok := w.versions[o.Name]; ok {
		o.ResourceVersion = version
	}
	return o
}

// write does a write that fills o with what is stored then.
func (w *writer) write(k kind, o client.Object, doing string, do func() error) error {
	name := o.GetName()
	if err := w.count(k, do()); err != nil {
		return fmt.Errorf("%s %s %q: %w", doing, k.object(), name, err)
	}
	if k.object() == kindReservation {
		w.versions[name] = o.GetResourceVersion()
	}
	w.ns.wrote(k.object(), o, w.Now())
	return nil
}

func (w *writer) count(k kind, err error) error {
	w.Metrics.wrote(k, err)
	return err
}
