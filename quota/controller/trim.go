package controller

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// trimPod keeps the identity of a pod, its charge and its scope properties, as if it had one
// container and no resize: a seventh of a launcher pod. A test proves that quotas see no
// difference. It also keeps the annotations with the size of its VM, for package resizevm.
func trimPod(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: identity(pod.ObjectMeta)}
	out.Labels = trimLabels(pod.Labels)
	out.Annotations = api.VMSizeAnnotations(pod.Annotations)
	if owner := metav1.GetControllerOf(pod); owner != nil {
		out.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	facts := quota.Reserve(v1alpha1.RoleLauncher, pod)
	out.Spec = corev1.PodSpec{
		Containers:            sharedContainers.of(facts.Charge),
		ActiveDeadlineSeconds: pod.Spec.ActiveDeadlineSeconds,
		PriorityClassName:     pod.Spec.PriorityClassName,
		NodeName:              pod.Spec.NodeName,
	}
	if facts.CrossNamespaceAffinity {
		out.Spec.Affinity = pod.Spec.Affinity
	}
	out.Status = corev1.PodStatus{Phase: pod.Status.Phase, QOSClass: corev1.PodQOSBurstable}
	if facts.BestEffort {
		out.Status.QOSClass = corev1.PodQOSBestEffort
	}
	return out
}

func trimLabels(labels map[string]string) map[string]string {
	out := map[string]string{}
	for _, key := range []string{kubevirtv1.AppLabel, kubevirtv1.CreatedByLabel,
		kubevirtv1.MigrationJobLabel} {
		if value, ok := labels[key]; ok {
			out[key] = value
		}
	}
	return out
}
