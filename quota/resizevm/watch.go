package resizevm

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Sources enqueue a VM after a change of its annotations, of its launchers, and of their reports.
func Sources(from cache.Cache) []source.Source {
	return []source.Source{
		source.Kind[client.Object](from, vmMetadata(), &handler.EnqueueRequestForObject{},
			predicate.AnnotationChangedPredicate{}),
		source.Kind[client.Object](from, &corev1.Pod{},
			handler.EnqueueRequestsFromMapFunc(func(_ context.Context,
				pod client.Object) []reconcile.Request {
				return vmOf(pod)
			})),
		source.Kind[client.Object](from, &v1alpha1.NodeState{},
			handler.EnqueueRequestsFromMapFunc(reportedVMs(from)), predicate.Funcs{
				UpdateFunc: func(e event.UpdateEvent) bool {
					return !equality.Semantic.DeepEqual(launchersOf(e.ObjectOld),
						launchersOf(e.ObjectNew))
				},
			}),
	}
}

// vmOf returns the VM of a launcher pod.
func vmOf(pod client.Object) []reconcile.Request {
	name := vmNameOf(pod)
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{
		Namespace: pod.GetNamespace(), Name: name}}}
}

// vmNameOf returns the name of the VM of a launcher pod; "": it is no launcher. KubeVirt names the
// pod's owner, an instance, after its VM.
func vmNameOf(pod client.Object) string {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != kubevirtv1.VirtualMachineInstanceGroupVersionKind.Kind {
		return ""
	}
	return owner.Name
}

// reportedVMs returns the VMs with a resize in a NodeState.
func reportedVMs(from client.Reader) handler.MapFunc {
	return func(ctx context.Context, node client.Object) []reconcile.Request {
		var all []reconcile.Request
		for _, l := range launchersOf(node) {
			pod := &corev1.Pod{}
			key := client.ObjectKey{Namespace: l.Pod.Namespace, Name: l.Pod.Name}
			if l.Resize == nil || from.Get(ctx, key, pod) != nil {
				continue // a pod outside of the cache is not KubeVirt's, or has gone
			}
			all = append(all, vmOf(pod)...)
		}
		return all
	}
}

func launchersOf(node client.Object) []v1alpha1.LauncherReport {
	if n, ok := node.(*v1alpha1.NodeState); ok {
		return n.Status.Launchers
	}
	return nil
}

// TrimLaunchers keeps pod and resize of the launchers with a resize.
func TrimLaunchers(all []v1alpha1.LauncherReport) []v1alpha1.LauncherReport {
	var kept []v1alpha1.LauncherReport
	for i := range all {
		if all[i].Resize != nil {
			kept = append(kept, v1alpha1.LauncherReport{Pod: all[i].Pod, Resize: all[i].Resize})
		}
	}
	return kept
}

func vmMetadata() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(kubevirtv1.VirtualMachineGroupVersionKind)
	return o
}
