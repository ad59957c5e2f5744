package quota_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/quota"
)

// of returns a pod with these containers.
func of(containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: containers}}
}

func wants(requests, limits corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: "compute",
		Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
}

// console is KubeVirt's container for the guest console.
func console() corev1.Container {
	c := wants(list("cpu", "5m", "memory", "35M"), list("cpu", "15m", "memory", "60M"))
	c.Name = "guest-console-log"
	return c
}

func sidecar(c corev1.Container) corev1.Container {
	c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	return c
}

func initially(pod *corev1.Pod, containers ...corev1.Container) *corev1.Pod {
	pod.Spec.InitContainers = containers
	return pod
}

func both(cpu, memory string) corev1.ResourceList {
	return list("cpu", cpu, "requests.cpu", cpu, "limits.cpu", cpu,
		"memory", memory, "requests.memory", memory, "limits.memory", memory, "pods", "1",
		"count/pods", "1")
}

func TestCharge(t *testing.T) {
	compute := wants(list("cpu", "100m", "memory", "682Mi"),
		list("cpu", "1", "memory", "1456469952"))
	resized := of(container("1", "1Gi"))
	resized.Status.ContainerStatuses = []corev1.ContainerStatus{
		{AllocatedResources: list("cpu", "2", "memory", "1Gi")}}
	infeasible := of(container("8", "1Gi"))
	infeasible.Status.ContainerStatuses = []corev1.ContainerStatus{{
		AllocatedResources: list("cpu", "2", "memory", "1Gi"),
		Resources: &corev1.ResourceRequirements{Requests: list("cpu", "2", "memory",
			"1Gi"), Limits: list("cpu", "2", "memory", "1Gi")},
	}}
	infeasible.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
	withOverhead := of(container("1", "1Gi"))
	withOverhead.Spec.Overhead = list("cpu", "250m", "memory", "100Mi")
	whole := of(container("1", "1Gi"))
	whole.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "3", "memory", "3Gi"),
		Limits: list("cpu", "3", "memory", "3Gi")}

	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want corev1.ResourceList
	}{
		"no resources": {of(corev1.Container{}), list("pods", "1", "count/pods", "1")},
		"defect 5: launcher of 1Gi with its console container": {of(compute, console()), list(
			"cpu", "105m", "requests.cpu", "105m", "limits.cpu", "1015m", "pods", "1",
			"count/pods", "1",
			"memory", "750128832", "requests.memory", "750128832", "limits.memory", "1516469952")},
		"the same as a sidecar": {initially(of(compute), sidecar(console())), list(
			"cpu", "105m", "requests.cpu", "105m", "limits.cpu", "1015m", "pods", "1",
			"count/pods", "1",
			"memory", "750128832", "requests.memory", "750128832", "limits.memory", "1516469952")},
		"an init container is charged where it wants more": {initially(of(container("1", "2Gi")),
			container("3", "1Gi")), both("3", "2Gi")},
		"an init container runs beside the sidecars before it": {
			initially(of(container("1", "1Gi")), sidecar(container("1", "1Gi")),
				container("2", "1Gi")), both("3", "2Gi")},
		"being resized: the larger of wanted and allocated": {resized, list(
			"cpu", "2", "requests.cpu", "2", "limits.cpu", "1", "memory", "1Gi", "requests.memory",
			"1Gi", "limits.memory", "1Gi",
			"pods", "1", "count/pods", "1")},
		"a resize that cannot be done": {infeasible, both("2", "1Gi")},
		"overhead":                     {withOverhead, both("1250m", "1124Mi")},
		"resources of the whole pod":   {whole, both("3", "3Gi")},
		"other charged resources": {
			of(wants(list("hugepages-2Mi", "4Mi", "ephemeral-storage", "1Gi", "nvidia.com/gpu", "2",
				"devices.kubevirt.io/kvm", "1"),
				list("hugepages-2Mi", "4Mi", "ephemeral-storage", "2Gi", "nvidia.com/gpu", "2",
					"devices.kubevirt.io/kvm", "1"))),
			list("hugepages-2Mi", "4Mi", "requests.hugepages-2Mi", "4Mi", "ephemeral-storage",
				"1Gi", "requests.ephemeral-storage", "1Gi",
				"limits.ephemeral-storage", "2Gi", "requests.nvidia.com/gpu", "2",
				"requests.devices.kubevirt.io/kvm", "1",
				"pods", "1", "count/pods", "1")},
		"device classes and Kubernetes' own resources": {
			of(wants(list("deviceclass.resource.kubernetes.io/gpu", "1",
				"attachable.kubernetes.io/x", "1"), nil)),
			list("requests.deviceclass.resource.kubernetes.io/gpu", "1", "pods", "1",
				"count/pods", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			if d := diff(tt.want, quota.Charge(tt.pod)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestCharged(t *testing.T) {
	now := start()
	deleted := func(ago time.Duration, grace int64) *corev1.Pod {
		pod := launcher("p", "vm", "1", "1Gi")
		pod.DeletionTimestamp = &metav1.Time{Time: now.Add(-ago)}
		pod.DeletionGracePeriodSeconds = &grace
		return pod
	}
	failed := launcher("p", "vm", "1", "1Gi")
	failed.Status.Phase = corev1.PodFailed
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"running":                              {launcher("p", "vm", "1", "1Gi"), true},
		"not scheduled":                        {of(), true},
		"completed":                            {ended(launcher("p", "vm", "1", "1Gi")), false},
		"failed":                               {failed, false},
		"being deleted":                        {deleted(-time.Second, 30), true},
		"its grace period once more":           {deleted(30*time.Second, 30), true},
		"longer than its grace period":         {deleted(30*time.Second+1, 30), false},
		"with no grace period, at that moment": {deleted(0, 0), true},
		"with no grace period, after it":       {deleted(1, 0), false},
	} {
		if got := quota.Charged(tt.pod, now); got != tt.want {
			t.Errorf("%s: charged %v, want %v", name, got, tt.want)
		}
	}
}
