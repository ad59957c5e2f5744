package controller

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/resizevm"
)

// CacheOptions are the required options of the controller's caches. They keep only the parts of VMs
// and pods that quotas need, and return shared objects, which must not be changed.
func CacheOptions() cache.Options {
	shared := true
	return cache.Options{
		ReaderFailOnMissingInformer:  true,
		DefaultTransform:             trimOther,
		DefaultUnsafeDisableDeepCopy: &shared,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}: {Label: quota.PodsOfVMs(), Transform: transform(trimPod)},
		},
	}
}

// trimOther trims objects other than pods, except quotas. Of a NodeState, package nodepolicy needs
// the report about the policy and its age, package fencing that about deleted pods, and package
// resizevm the sizes. A rule by kind for VMIs would fail without KubeVirt, because the cache
// requires that the API server serves the kind of each rule.
func trimOther(o any) (any, error) {
	switch o := o.(type) {
	case *metav1.PartialObjectMetadata:
		return trimMetadata(o), nil
	case *corev1.ResourceQuota:
		return o, nil // with the owners of its limits
	case *v1alpha1.NodeState:
		return &v1alpha1.NodeState{ObjectMeta: identity(o.ObjectMeta),
			Status: v1alpha1.NodeStateStatus{Policy: o.Status.Policy,
				HeartbeatTime: o.Status.HeartbeatTime, DeletedPods: o.Status.DeletedPods,
				Launchers: resizevm.TrimLaunchers(o.Status.Launchers)}}, nil
	}
	return cache.TransformStripManagedFields()(o)
}

// transform adapts a function for one type to a cache transformation.
func transform[T any](trim func(T) T) func(any) (any, error) {
	return func(o any) (any, error) {
		if typed, ok := o.(T); ok {
			return trim(typed), nil
		}
		return nil, fmt.Errorf("caching a %T: want a %T", o, *new(T))
	}
}

// trimMetadata keeps the identity of an object, and annotations about the size of a VM.
func trimMetadata(o *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	out := &metav1.PartialObjectMetadata{TypeMeta: o.TypeMeta, ObjectMeta: identity(o.ObjectMeta)}
	out.Annotations = api.VMSizeAnnotations(o.Annotations)
	return out
}

func identity(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
		DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
	}
}
