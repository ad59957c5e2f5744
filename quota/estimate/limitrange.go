package estimate

import corev1 "k8s.io/api/core/v1"

// applyLimitRanges applies the API server's defaults for pods: a missing request equals the limit,
// and LimitRanges fill the remaining values.
func applyLimitRanges(pod *corev1.Pod, ranges []*corev1.LimitRange) {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			of := &containers[i].Resources
			if of.Requests == nil {
				of.Requests = corev1.ResourceList{}
			}
			if of.Limits == nil {
				of.Limits = corev1.ResourceList{}
			}
			fillMissing(of.Requests, of.Limits)
			for _, item := range ofContainers(ranges) {
				fillMissing(of.Limits, item.Default)
				fillMissing(of.Requests, item.DefaultRequest)
			}
		}
	}
}

// fillMissing copies the amounts missing from a list.
func fillMissing(list, from corev1.ResourceList) {
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
