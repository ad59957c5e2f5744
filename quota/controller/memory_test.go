package controller

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// BenchmarkCachedLauncher reports the heap bytes of one launcher pod in the controller's cache, as
// bytes/pod.
func BenchmarkCachedLauncher(b *testing.B) {
	reportHeap(b, "bytes/pod", func(i int) any {
		pod := &corev1.Pod{}
		decodeAgain(b, launcherOf(i), pod)
		return trimPod(pod)
	})
}

// BenchmarkCachedInstance reports the heap bytes of one VirtualMachineInstance in the controller's
// cache, as bytes/VMI.
func BenchmarkCachedInstance(b *testing.B) {
	reportHeap(b, "bytes/VMI", func(i int) any {
		vmi := vmiMetadata()
		vmi.ObjectMeta = *launcherOf(i).ObjectMeta.DeepCopy()
		trimmed, err := trimOther(decodeMetadata(b, vmi))
		if err != nil {
			b.Fatal(err)
		}
		return trimmed
	})
}

// reportHeap reports the heap bytes of one object returned by one.
func reportHeap(b *testing.B, unit string, one func(int) any) {
	b.Helper()
	const objects = 10000
	for b.Loop() {
		all, before := make([]any, objects), heap()
		for i := range all {
			all[i] = one(i)
		}
		b.ReportMetric(float64(heap()-before)/objects, unit)
		runtime.KeepAlive(all)
	}
}

// heap returns the bytes of live objects.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // completes the sweep of the first
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// launcherOf returns the launcher of a VM, with a part of the usual content.
func launcherOf(i int) *corev1.Pod {
	pod := launcher(fmt.Sprintf("virt-launcher-vm-%d-abcde", i), map[string]string{
		"kubevirt.io/nodeName": "node-1", "vm.kubevirt.io/name": fmt.Sprintf("vm-%d", i)})
	pod.Namespace, pod.UID = fmt.Sprintf("vms-%d", i%100), types.UID(fmt.Sprintf("%036d", i))
	pod.Labels[kubevirtv1.CreatedByLabel] = fmt.Sprintf("%036d", -i)
	pod.Spec.NodeName = fmt.Sprintf("node-%d", i%50)
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "kubevirt.io/v1", Kind: "VirtualMachineInstance", Controller: new(true),
		Name: fmt.Sprintf("vm-%d", i), UID: types.UID(fmt.Sprintf("%036d", -i)),
		BlockOwnerDeletion: new(true)}}
	return pod
}

// decodeAgain copies a pod like a client that reads it.
func decodeAgain(b *testing.B, from, to *corev1.Pod) {
	b.Helper()
	content, err := from.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	if err := to.Unmarshal(content); err != nil {
		b.Fatal(err)
	}
}

func decodeMetadata(
	b *testing.B, from *metav1.PartialObjectMetadata,
) *metav1.PartialObjectMetadata {
	b.Helper()
	content, err := from.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	to := vmiMetadata()
	if err := to.Unmarshal(content); err != nil {
		b.Fatal(err)
	}
	return to
}
