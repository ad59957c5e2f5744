package controller

import (
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// maxShared is the number of charges remembered for sharing.
const maxShared = 1000

// sharedContainers are the containers of the trimmed pods.
var sharedContainers = &containerSets{all: map[string][]corev1.Container{}}

// containerSets gives pods with the same charge the same containers. This saves a third of the
// memory of a trimmed pod. Objects in the cache must not be changed anyway. It may be used
// concurrently.
type containerSets struct {
	mu  sync.Mutex
	all map[string][]corev1.Container // by charge
}

// of returns one container with this charge.
func (s *containerSets) of(charge corev1.ResourceList) []corev1.Container {
	key := chargeKey(charge)
	s.mu.Lock()
	defer s.mu.Unlock()
	if shared, ok := s.all[key]; ok {
		return shared
	}
	if len(s.all) >= maxShared {
		clear(s.all) // the cached pods keep theirs
	}
	s.all[key] = []corev1.Container{{Resources: resources(charge)}}
	return s.all[key]
}

// chargeKey returns equal texts for equal charges.
func chargeKey(charge corev1.ResourceList) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(charge)) {
		q := charge[name]
		b.WriteString(string(name) + "=" + q.String() + ",")
	}
	return b.String()
}

// resources returns resources with this charge.
func resources(charge corev1.ResourceList) corev1.ResourceRequirements {
	out := corev1.ResourceRequirements{Requests: corev1.ResourceList{},
		Limits: corev1.ResourceList{}}
	for name, q := range charge {
		if of, ok := strings.CutPrefix(string(name), corev1.DefaultResourceRequestsPrefix); ok {
			out.Requests[corev1.ResourceName(of)] = q
		}
		if of, ok := strings.CutPrefix(string(name), "limits."); ok {
			out.Limits[corev1.ResourceName(of)] = q
		}
	}
	return out
}
