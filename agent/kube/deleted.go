package kube

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// DeletedPod is a deleted pod whose object waits for the end of its VM.
type DeletedPod struct {
	agentapi.PodRef
	Domains []string // names and UUIDs of libvirt domains that the pod declares
}

// Deleted returns the deleted pods with [api.PodFinalizer] in the order of their UIDs. It never
// blocks on I/O.
func (c *PodCache) Deleted() []DeletedPod {
	var all []DeletedPod
	for _, obj := range c.informer.GetStore().List() {
		pod, ok := obj.(*corev1.Pod)
		if !ok || pod.DeletionTimestamp == nil || !slices.Contains(pod.Finalizers,
			api.PodFinalizer) {
			continue
		}
		all = append(all, DeletedPod{agentapi.PodRef{Namespace: pod.Namespace, Name: pod.Name,
			UID: string(pod.UID)}, declaredDomains(pod)})
	}
	slices.SortFunc(all, func(a, b DeletedPod) int { return cmp.Compare(a.UID, b.UID) })
	return all
}

func declaredDomains(pod *corev1.Pod) (domains []string) {
	for key, domain := range pod.Annotations {
		if isDomainKey(key) {
			domains = append(domains, domain)
		}
	}
	return domains
}

func isDomainKey(key string) bool {
	key, _, _ = strings.Cut(key, "/")
	return key == api.DomainKey
}

// keepDeleted keeps the data of Deleted for pods with the finalizer.
func keepDeleted(kept, pod *corev1.Pod) {
	if !slices.Contains(pod.Finalizers, api.PodFinalizer) {
		return
	}
	kept.Finalizers, kept.DeletionTimestamp = []string{api.PodFinalizer}, pod.DeletionTimestamp
	for key, domain := range pod.Annotations {
		if isDomainKey(key) {
			if kept.Annotations == nil {
				kept.Annotations = map[string]string{}
			}
			kept.Annotations[key] = domain
		}
	}
}
