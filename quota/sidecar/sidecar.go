// Package sidecar says what mooring-shim adds to launcher pods, for the webhook that adds it
// and for whoever sizes a launcher beforehand. It is pure.
package sidecar

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mooring-vm/mooring/api"
)

// Asked says whether a launcher is to have mooring-shim: by its own annotations, which are
// those of its VM, or else by its namespace's. One that names a sidecar of its own gets none.
// The error is that of the namespace's annotation, which then says nothing.
func Asked(launcher, namespace map[string]string) (api.Injection, error) {
	if _, own, _ := api.Sidecar(launcher); own {
		return api.Injection{}, nil
	}
	return Wished(launcher, namespace, api.InjectSidecar)
}

// Wished reads a wish of a launcher, which goes before that of its namespace. A launcher
// whose annotation cannot be read is taken for one without.
func Wished[T any](launcher, namespace map[string]string, read func(map[string]string) (T, bool, error)) (T, error) {
	if v, ok, _ := read(launcher); ok {
		return v, nil
	}
	v, _, err := read(namespace)
	return v, err
}

// Resources are requests and limits of mooring-shim, for quotas that demand both. A launcher
// of the class Guaranteed stays one.
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

// Guaranteed says whether a container asks for as much as it is held to.
func Guaranteed(r corev1.ResourceRequirements) bool {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit, ok := r.Limits[name]
		if request := r.Requests[name]; !ok || request.Cmp(limit) != 0 {
			return false
		}
	}
	return true
}
