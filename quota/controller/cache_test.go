package controller

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

func memory(quantity string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(quantity)}
}

func wanting(quantity string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: memory(quantity), Limits: memory(quantity)}
}

// rich is a pod with all properties relevant for quotas, and more.
func rich() *corev1.Pod {
	always, deadline := corev1.ContainerRestartPolicyAlways, int64(60)
	pod := launcher("rich", map[string]string{kubevirtv1.MigrationJobLabel: "m", "vm": "vm",
		"team": "a"})
	pod.Annotations = map[string]string{"kubevirt.io/domain": "vm",
		api.ResizeMemoryKey: "4Gi"}
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Other", Name: "other"},
		{Kind: "Pod", UID: "owner", Controller: new(true)}}
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(100, 0)},
		new(int64(30))
	pod.Spec.NodeName = "node"
	pod.Spec.Volumes = []corev1.Volume{{Name: "root"}}
	pod.Spec.Overhead = memory("10Mi")
	pod.Spec.PriorityClassName = "high"
	pod.Spec.ActiveDeadlineSeconds = &deadline
	pod.Spec.Containers[0].Image = "image"
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "big", Resources: wanting("2Gi")}, {Name: "sidecar", Resources: wanting("7Mi"),
			RestartPolicy: &always},
	}
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{Namespaces: []string{"other"}}},
	}}
	pod.Status.QOSClass = corev1.PodQOSBurstable
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		{Type: corev1.PodResizePending, Status: corev1.ConditionTrue,
			Reason: corev1.PodReasonInfeasible},
	}
	resized := wanting("4Gi")
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: "compute", Resources: &resized, AllocatedResources: memory("5Gi"),
			ImageID: "sha256:1"},
	}
	return pod
}

// TestTrimmedPodsAreChargedTheSame: quotas charge a trimmed pod like the whole pod.
func TestTrimmedPodsAreChargedTheSame(t *testing.T) {
	podLevel := rich()
	podLevel.Spec.Resources = &corev1.ResourceRequirements{Requests: memory("9Gi")}
	ended := rich()
	ended.Status.Phase = corev1.PodSucceeded
	feasible := rich()
	feasible.Status.Conditions = nil
	bestEffort := launcher("best effort", nil)
	bestEffort.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	devices := rich()
	devices.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{
		"devices.kubevirt.io/kvm": resource.MustParse("1"),
		"hugepages-2Mi":           resource.MustParse("64Mi"),
		"ephemeral-storage":       resource.MustParse("1M"),
	}}
	devices.Spec.Containers[0].Resources.Requests = devices.Spec.Containers[0].Resources.Limits
	for name, pod := range map[string]*corev1.Pod{
		"best effort": bestEffort, "devices": devices,
		"plain": launcher("plain", nil), "rich": rich(), "pod level": podLevel, "ended": ended,
		"resized": feasible,
	} {
		t.Run(name, func(t *testing.T) {
			trimmed := trimPod(pod.DeepCopy())
			if diff := cmp.Diff(quota.Reserve(v1alpha1.RoleLauncher, pod),
				quota.Reserve(v1alpha1.RoleLauncher, trimmed)); diff != "" {
				t.Errorf("charge (-whole +trimmed):\n%s", diff)
			}
			for _, now := range []int64{99, 129, 131} {
				at := time.Unix(now, 0)
				if whole, got := quota.Charged(pod, at), quota.Charged(trimmed, at); whole != got {
					t.Errorf("charged at %d: whole %t, trimmed %t", now, whole, got)
				}
			}
		})
	}
}

// The inputs of a plan are the same for trimmed pods.
func TestTrimmedPodsKeepWhatTheyAreFor(t *testing.T) {
	trimmed := trimPod(rich())
	if diff := cmp.Diff(map[string]string{
		kubevirtv1.AppLabel: "virt-launcher", kubevirtv1.CreatedByLabel: "vmi-uid",
		kubevirtv1.MigrationJobLabel: "m",
	}, trimmed.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if owner := metav1.GetControllerOf(trimmed); owner == nil || owner.UID != "owner" {
		t.Errorf("owner %v", owner)
	}
	if trimmed.Spec.NodeName != "node" {
		t.Errorf("node %q", trimmed.Spec.NodeName)
	}
	if diff := cmp.Diff(map[string]string{api.ResizeMemoryKey: "4Gi"},
		trimmed.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if trimmed.Spec.Volumes != nil ||
		len(trimmed.Spec.InitContainers) > 0 {
		t.Errorf("kept too much: %+v", trimmed)
	}
}

func TestPodsOfVMs(t *testing.T) {
	for value, want := range map[string]bool{"virt-launcher": true, "hotplug-disk": true,
		"virt-handler": false} {
		if got := quota.PodsOfVMs().Matches(labels.Set{kubevirtv1.AppLabel: value}); got != want {
			t.Errorf("%s: got %t, want %t", value, got, want)
		}
	}
}

func TestWhatMatters(t *testing.T) {
	used := func(memory string) func(client.Object) {
		return func(o client.Object) {
			o.(*corev1.ResourceQuota).Status.Used = corev1.ResourceList{
				corev1.ResourceRequestsMemory: resource.MustParse(memory)}
		}
	}
	annotate := func(o client.Object) { o.SetAnnotations(map[string]string{"a": "b"}) }
	tests := map[string]struct {
		matters func(before, now client.Object) bool
		of      client.Object
		change  func(client.Object)
		want    bool
	}{
		"a pod's version": {podRelevant, launcher("p", nil),
			func(o client.Object) { o.SetResourceVersion("2") }, false},
		"a pod's end": {podRelevant, launcher("p", nil),
			func(o client.Object) { o.(*corev1.Pod).Status.Phase = corev1.PodFailed }, true},
		"a pod's deletion": {podRelevant, launcher("p", nil), func(o client.Object) {
			o.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(9, 0)})
		}, true},
		"a pod's size": {podRelevant, launcher("p", nil), func(o client.Object) {
			o.(*corev1.Pod).Spec.Containers[0].Resources = wanting("3Gi")
		}, true},
		"a quota's use":     {quotaRelevant, newQuota(), used("512Mi"), false},
		"a quota's overrun": {quotaRelevant, newQuota(), used("2Gi"), true},
		"a quota's hard": {quotaRelevant, newQuota(),
			func(o client.Object) { o.(*corev1.ResourceQuota).Spec.Hard = doubled() }, true},
		"a quota's status.hard": {quotaRelevant, newQuota(),
			func(o client.Object) { o.(*corev1.ResourceQuota).Status.Hard = base() }, true},
		"a quota's annotations": {quotaRelevant, newQuota(), annotate, true},
		"a quota's labels": {quotaRelevant, newQuota(),
			func(o client.Object) { o.SetLabels(map[string]string{"a": "b"}) }, true},
		"KubeVirt's version": {kubeVirtRelevant, &kubevirtv1.KubeVirt{}, func(o client.Object) {
			o.(*kubevirtv1.KubeVirt).Status.ObservedKubeVirtVersion = "v1.9.0"
		}, true},
		"KubeVirt's settings": {kubeVirtRelevant, &kubevirtv1.KubeVirt{}, func(o client.Object) {
			o.(*kubevirtv1.KubeVirt).Spec.Configuration.MigrationConfiguration =
				&kubevirtv1.MigrationConfiguration{ParallelMigrationsPerCluster: new(uint32(9))}
		}, true},
		"KubeVirt's phase": {kubeVirtRelevant, &kubevirtv1.KubeVirt{}, func(o client.Object) {
			o.(*kubevirtv1.KubeVirt).Status.Phase = kubevirtv1.KubeVirtPhaseDeployed
		}, false},
		"a namespace's labels": {namespaceRelevant, &corev1.Namespace{},
			func(o client.Object) { o.SetLabels(map[string]string{"a": "b"}) }, false},
		"a namespace's settings": {namespaceRelevant, &corev1.Namespace{}, annotate, true},
		"a namespace's end": {namespaceRelevant, &corev1.Namespace{}, func(o client.Object) {
			o.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(9, 0)})
		}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			now := tt.of.DeepCopyObject().(client.Object)
			tt.change(now)
			if got := tt.matters(tt.of, now); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}
