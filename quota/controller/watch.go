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
	"github.com/mooring-vm/mooring/quota"
)

// watchedKind is a kind watched by the controller.
type watchedKind struct {
	object client.Object
	// relevant reports whether an update of an object can change the plan of its namespace. Nil
	// means that each update can.
	relevant func(before, now client.Object) bool
	kubeVirt bool // one of KubeVirt's kinds
	cluster  bool // a change can affect each namespace with reservations
}

// watches returns the watched kinds.
func watches() []watchedKind {
	return []watchedKind{
		{object: &corev1.Namespace{}, relevant: namespaceRelevant},
		{object: &corev1.ResourceQuota{}, relevant: quotaRelevant},
		{object: &corev1.Pod{}, relevant: podRelevant},
		{object: &v1alpha1.MigrationReservation{}},
		{object: &kubevirtv1.VirtualMachineInstanceMigration{}, kubeVirt: true},
		// The plan uses name and UID only.
		{object: vmiMetadata(), relevant: never, kubeVirt: true},
		{object: &kubevirtv1.KubeVirt{}, relevant: kubeVirtRelevant, kubeVirt: true, cluster: true},
	}
}

// source enqueues the namespaces affected by an object with a relevant change.
func (w watchedKind) source(from cache.Cache) source.Source {
	affected := namespaceOf
	if w.cluster {
		affected = reservedNamespaces(from)
	}
	return source.Kind(from, w.object, handler.EnqueueRequestsFromMapFunc(affected),
		predicate.Funcs{
			UpdateFunc: func(e event.UpdateEvent) bool {
				return w.relevant == nil || w.relevant(e.ObjectOld, e.ObjectNew)
			},
		})
}

func namespaceOf(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetNamespace()
	if name == "" {
		name = o.GetName()
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

// reservedNamespaces returns a function that lists the namespaces with reservations.
func reservedNamespaces(from client.Reader) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		ledger := &v1alpha1.MigrationReservationList{}
		if err := from.List(ctx, ledger); err != nil {
			return nil // the caches stop: no plan follows anyway
		}
		names := map[string]bool{}
		var all []reconcile.Request
		for i := range ledger.Items {
			if name := ledger.Items[i].Namespace; !names[name] {
				names[name] = true
				all = append(all,
					reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
			}
		}
		return all
	}
}

func never(client.Object, client.Object) bool { return false }

func namespaceRelevant(before, now client.Object) bool {
	return !maps.Equal(before.GetAnnotations(), now.GetAnnotations()) ||
		before.GetLabels()[quota.ReservedLabel] != now.GetLabels()[quota.ReservedLabel] ||
		before.GetDeletionTimestamp().IsZero() != now.GetDeletionTimestamp().IsZero()
}

// kubeVirtRelevant compares the fields that limits of migrations and estimates use.
func kubeVirtRelevant(before, now client.Object) bool {
	a, b := before.(*kubevirtv1.KubeVirt), now.(*kubevirtv1.KubeVirt)
	return !equality.Semantic.DeepEqual(a.Spec.Configuration, b.Spec.Configuration) ||
		a.Status.ObservedKubeVirtVersion != b.Status.ObservedKubeVirtVersion
}

// podRelevant compares pods of the cache, which keeps only the fields that the plan uses.
func podRelevant(before, now client.Object) bool {
	a, b := *before.(*corev1.Pod), *now.(*corev1.Pod)
	a.ResourceVersion, b.ResourceVersion = "", ""
	return !equality.Semantic.DeepEqual(a, b)
}

// quotaRelevant ignores changes of status.used, the most frequent change of a quota, unless it
// exceeds spec.hard before or after.
func quotaRelevant(before, now client.Object) bool {
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
