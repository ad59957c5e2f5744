package estimate

import corev1 "k8s.io/api/core/v1"

// fill enters what the API server does when a pod is made: a limit is a request where there
// is none, and then LimitRanges fill what is open.
func fill(pod *corev1.Pod, ranges []*corev1.LimitRange) {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			of := &containers[i].Resources
			if of.Requests == nil {
				of.Requests = corev1.ResourceList{}
			}
			if of.Limits == nil {
				of.Limits = corev1.ResourceList{}
			}
			missing(of.Requests, of.Limits)
			for _, item := range ofContainers(ranges) {
				missing(of.Limits, item.Default)
				missing(of.Requests, item.DefaultRequest)
			}
		}
	}
}

// missing enters amounts that a list has not.
func missing(list, from corev1.ResourceList) {
	for name, q := range from {
		if _, has := list[name]; !has {
			list[name] = q
		}
	}
}

func ofContainers(ranges []*corev1.LimitRange) []corev1.LimitRangeItem {
	var all []corev1.LimitRangeItem
	for _, r := range ranges {
		for _, item := range r.Spec.Limits {
			if item.Type == corev1.LimitTypeContainer {
				all = append(all, item)
			}
		}
	}
	return all
}
