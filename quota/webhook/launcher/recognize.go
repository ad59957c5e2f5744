package launcher

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/quota"
)

// IsLauncher reports whether label and owner make a pod the launcher of a VirtualMachineInstance,
// and of which one. KubeVirt's temporary pod for binding volumes runs no VM and is no launcher.
func IsLauncher(pod *corev1.Pod) (vmi string, uid types.UID, ok bool) {
	owner := metav1.GetControllerOf(pod)
	if pod.Labels[kubevirtv1.AppLabel] != quota.LauncherApp || owner == nil ||
		owner.Kind != kubevirtv1.VirtualMachineInstanceGroupVersionKind.Kind {
		return "", "", false
	}
	if _, bindsVolumes := pod.Annotations[kubevirtv1.EphemeralProvisioningObject]; bindsVolumes {
		return "", "", false
	}
	of, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil || of.Group != kubevirtv1.GroupVersion.Group ||
		pod.Labels[kubevirtv1.CreatedByLabel] != string(owner.UID) {
		return "", "", false
	}
	return owner.Name, owner.UID, true
}

// isTarget reports whether a launcher pod is the target of a live migration.
func isTarget(pod *corev1.Pod) bool { return pod.Labels[kubevirtv1.MigrationJobLabel] != "" }
