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

// Charge is what ResourceQuotas charge for a pod while it is charged ([Charged]), in their
// names: cpu and requests.cpu, limits.cpu, the same for memory and ephemeral-storage,
// hugepages-SIZE and requests.hugepages-SIZE, requests.NAME of extended resources, pods,
// and count/pods.
//
// It computes as kube-apiserver does (the pod evaluator of pkg/quota/v1/evaluator/core,
// with the feature gates that are on by default in 1.37): init containers and sidecars,
// overhead and resources of the whole pod; and of a pod that is resized in place the
// largest of what is wanted, allocated and in force.
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

// requestNames are the names that a request is charged under.
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
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
}

// extended says whether a name is that of an extended resource, or of a device class in
// the form of one.
func extended(name corev1.ResourceName) bool {
	if strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) {
		return true
	}
	return !native(name) && !strings.HasPrefix(string(name), requestsPrefix) &&
		len(validation.IsQualifiedName(requestsPrefix+string(name))) == 0
}

// native says whether a name is Kubernetes' own.
func native(name corev1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// Charged says whether a pod is charged at a moment, apart from count/pods, which every
// pod is as long as it is stored. A pod is charged until it has ended, or until its grace
// period has passed once more after the moment at which it should have been gone.
func Charged(pod *corev1.Pod, now time.Time) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	until, ends := chargedUntil(pod)
	return !ends || !now.After(until)
}

// chargedUntil is the last moment at which a pod that is being deleted is charged.
func chargedUntil(pod *corev1.Pod) (time.Time, bool) {
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return time.Time{}, false
	}
	return pod.DeletionTimestamp.Add(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second), true
}

// OfPods says whether a name in a ResourceQuota is one that pods are charged under.
func OfPods(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourcePods, countPods,
		corev1.ResourceCPU, corev1.ResourceRequestsCPU, corev1.ResourceLimitsCPU,
		corev1.ResourceMemory, corev1.ResourceRequestsMemory, corev1.ResourceLimitsMemory,
		corev1.ResourceEphemeralStorage, corev1.ResourceRequestsEphemeralStorage, corev1.ResourceLimitsEphemeralStorage:
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
