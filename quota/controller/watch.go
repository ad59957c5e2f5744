package controller

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// watched is a kind that the controller watches.
type watched struct {
	object client.Object
	// matters says whether a change is one that a plan may follow from. Nil: any is.
	matters func(before, now client.Object) bool
}

// watches are the kinds that the controller watches.
func watches() []watched {
	return []watched{
		{&corev1.Namespace{}, namespaceMatters},
		{&corev1.ResourceQuota{}, quotaMatters},
		{&corev1.Pod{}, podMatters},
		{&v1alpha1.MigrationReservation{}, nil},
		{&kubevirtv1.VirtualMachineInstanceMigration{}, nil},
		{vmiMetadata(), never}, // its beginning and its end do
	}
}

// source has a worker deal with the namespace of each object that matters.
func (w watched) source(from cache.Cache) source.Source {
	return source.Kind(from, w.object, handler.EnqueueRequestsFromMapFunc(namespaceOf), predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool { return w.matters == nil || w.matters(e.ObjectOld, e.ObjectNew) },
	})
}

func namespaceOf(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetNamespace()
	if name == "" {
		name = o.GetName()
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

func never(client.Object, client.Object) bool { return false }

func namespaceMatters(before, now client.Object) bool {
	return !maps.Equal(before.GetAnnotations(), now.GetAnnotations()) ||
		before.GetDeletionTimestamp().IsZero() != now.GetDeletionTimestamp().IsZero()
}

// podMatters compares pods that were trimmed to what matters.
func podMatters(before, now client.Object) bool {
	a, b := *before.(*corev1.Pod), *now.(*corev1.Pod)
	a.ResourceVersion, b.ResourceVersion = "", ""
	return !equality.Semantic.DeepEqual(a, b)
}

// quotaMatters leaves out that something else is used, which is what happens to a quota
// most of the time, unless it is more than there may be.
func quotaMatters(before, now client.Object) bool {
	a, b := before.(*corev1.ResourceQuota), now.(*corev1.ResourceQuota)
	return !maps.Equal(a.Annotations, b.Annotations) || !maps.Equal(a.Labels, b.Labels) ||
		!equality.Semantic.DeepEqual(a.Spec, b.Spec) ||
		!equality.Semantic.DeepEqual(a.Status.Hard, b.Status.Hard) ||
		a.DeletionTimestamp.IsZero() != b.DeletionTimestamp.IsZero() ||
		(exceeded(a) || exceeded(b)) && !equality.Semantic.DeepEqual(a.Status.Used, b.Status.Used)
}

func exceeded(q *corev1.ResourceQuota) bool {
	for name, used := range q.Status.Used {
		if hard, ok := q.Spec.Hard[name]; ok && used.Cmp(hard) > 0 {
			return true
		}
	}
	return false
}
