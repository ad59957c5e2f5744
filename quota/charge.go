package quota

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	podresource "k8s.io/component-helpers/resource"
)

const (
	requestsPrefix = corev1.DefaultResourceRequestsPrefix
	countPods      = corev1.ResourceName("count/pods")
)

// Charge returns the amounts that ResourceQuotas charge for a pod ([Charged]), by quota resource
// name: cpu and requests.cpu, limits.cpu, the same for memory and ephemeral-storage, hugepages-SIZE
// and requests.hugepages-SIZE, requests.NAME of extended resources, pods, and count/pods.
//
// The formula is kube-apiserver's (the pod evaluator of pkg/quota/v1/evaluator/core with the
// default feature gates of 1.37). It includes init containers, sidecars, overhead and pod-level
// resources. During an in-place resize the largest of desired, allocated and actual resources
// counts.
func Charge(pod *corev1.Pod) corev1.ResourceList {
	options := podresource.PodResourcesOptions{UseStatusResources: true}
	charge := corev1.ResourceList{countPods: one(), corev1.ResourcePods: one()}
	for name, q := range podresource.PodRequests(pod, options) {
		for _, as := range requestNames(name) {
			charge[as] = q
		}
	}
	for name, q := range podresource.PodLimits(pod, options) {
		if basic(name) {
			charge["limits."+name] = q
		}
	}
	return charge
}

func one() resource.Quantity { return *resource.NewQuantity(1, resource.DecimalSI) }

// requestNames returns the quota resource names of a request.
func requestNames(name corev1.ResourceName) []corev1.ResourceName {
	switch {
	case basic(name), strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
		return []corev1.ResourceName{name, requestsPrefix + name}
	case extended(name):
		return []corev1.ResourceName{requestsPrefix + name}
	}
	return nil
}

func basic(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory ||
		name == corev1.ResourceEphemeralStorage
}

// extended reports whether a name is an extended resource, or a device class in that form.
func extended(name corev1.ResourceName) bool {
	if strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) {
		return true
	}
	return !native(name) && !strings.HasPrefix(string(name), requestsPrefix) &&
		len(validation.IsQualifiedName(requestsPrefix+string(name))) == 0
}

// native reports whether a resource name belongs to Kubernetes itself.
func native(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") ||
		strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// Charged reports whether quotas charge the pod at this time. Only count/pods is charged for every
// stored pod. The charge ends with the pod, or one more grace period after the time at which its
// deletion was due.
func Charged(pod *corev1.Pod, now time.Time) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	until, ends := chargedUntil(pod)
	return !ends || !now.After(until)
}

// chargedUntil returns the end of the charge of a pod in deletion.
func chargedUntil(pod *corev1.Pod) (time.Time, bool) {
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return time.Time{}, false
	}
	return pod.DeletionTimestamp.Add(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second),
		true
}

// ChargedForPods reports whether ResourceQuotas charge this resource for pods.
func ChargedForPods(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourcePods, countPods,
		corev1.ResourceCPU, corev1.ResourceRequestsCPU, corev1.ResourceLimitsCPU,
		corev1.ResourceMemory, corev1.ResourceRequestsMemory, corev1.ResourceLimitsMemory,
		corev1.ResourceEphemeralStorage, corev1.ResourceRequestsEphemeralStorage,
		corev1.ResourceLimitsEphemeralStorage:
		return true
	}
	bare, request := strings.CutPrefix(string(name), requestsPrefix)
	switch {
	case strings.HasPrefix(bare, corev1.ResourceHugePagesPrefix):
		return true
	case strings.HasPrefix(bare, resourcev1.ResourceDeviceClassPrefix):
		return request
	}
	return request && !native(name)
}
