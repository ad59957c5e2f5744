// Package sidecar defines the mooring-shim sidecar of launcher pods, for the webhook that adds it
// and for estimates of a launcher's size. It is pure.
package sidecar

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mooring-vm/mooring/api"
)

// Requested reports whether a launcher gets the mooring-shim sidecar. The launcher's annotations,
// copied from its VM, take precedence over the namespace's. A launcher that names its own sidecar
// gets none. The error is about the namespace annotation, which is then ignored.
func Requested(launcher, namespace map[string]string) (api.Injection, error) {
	if _, own, _ := api.Sidecar(launcher); own {
		return api.Injection{}, nil
	}
	return LauncherOrNamespace(launcher, namespace, api.InjectSidecar)
}

// LauncherOrNamespace reads a setting from the launcher's annotations, or else from the
// namespace's. It ignores an unreadable launcher annotation.
func LauncherOrNamespace[T any](
	launcher, namespace map[string]string, read func(map[string]string) (T, bool, error),
) (T, error) {
	if v, ok, _ := read(launcher); ok {
		return v, nil
	}
	v, _, err := read(namespace)
	return v, err
}

// Resources returns requests and limits of mooring-shim. Both are set for quotas that require both.
// With guaranteed, they keep the QoS class Guaranteed.
func Resources(guaranteed bool) corev1.ResourceRequirements {
	limits := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("100m"),
		corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	requests := limits.DeepCopy()
	if !guaranteed {
		requests[corev1.ResourceCPU] = resource.MustParse("10m")
	}
	return corev1.ResourceRequirements{Requests: requests, Limits: limits}
}

// Guaranteed reports whether the requests of a container equal its limits.
func Guaranteed(r corev1.ResourceRequirements) bool {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit, ok := r.Limits[name]
		if request := r.Requests[name]; !ok || request.Cmp(limit) != 0 {
			return false
		}
	}
	return true
}
