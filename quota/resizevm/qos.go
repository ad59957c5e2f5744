package resizevm

import corev1 "k8s.io/api/core/v1"

// keepsQoS reports whether the pod keeps the QoS class with these resources of the launcher. The
// API server refuses a resize to another class.
func (d *decision) keepsQoS(to corev1.ResourceRequirements) bool {
	return qosClass(d.pod, to) == qosClass(d.pod, d.container.Resources)
}

// guaranteed reports whether the pod has the QoS class Guaranteed.
func (d *decision) guaranteed() bool {
	return qosClass(d.pod, d.container.Resources) == corev1.PodQOSGuaranteed
}

// qosClass returns the QoS class of a pod with these resources of the launcher, by the rules of
// Kubernetes for pods without pod-level resources, such as KubeVirt's.
func qosClass(pod *corev1.Pod, launcher corev1.ResourceRequirements) corev1.PodQOSClass {
	var class corev1.PodQOSClass
	add := func(r corev1.ResourceRequirements) {
		for _, m := range dimensions() {
			of := amountClass(r, corev1.ResourceName(m))
			if class != "" && class != of {
				of = corev1.PodQOSBurstable
			}
			class = of
		}
	}
	for i := range pod.Spec.InitContainers {
		add(pod.Spec.InitContainers[i].Resources)
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name != compute {
			add(c.Resources)
		}
	}
	add(launcher)
	return class
}

// amountClass returns the QoS class of one resource of a container.
func amountClass(r corev1.ResourceRequirements, name corev1.ResourceName) corev1.PodQOSClass {
	request, limit := r.Requests[name], r.Limits[name]
	switch {
	case request.Cmp(limit) != 0:
		return corev1.PodQOSBurstable
	case request.IsZero():
		return corev1.PodQOSBestEffort
	}
	return corev1.PodQOSGuaranteed
}
