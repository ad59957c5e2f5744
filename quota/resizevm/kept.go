package resizevm

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/quota/read"
)

// isSized reports whether annotations of a VM or of its launchers are about its size. A user who
// removes the VM's annotations leaves those of the launchers. Those still show the VM's size.
func (r *Reconciler) isSized(
	ctx context.Context, vm *metav1.PartialObjectMetadata,
) (bool, error) {
	if len(api.VMSizeAnnotations(vm.Annotations)) > 0 {
		return true, nil
	}
	pods := &corev1.PodList{}
	err := read.List(ctx, r.Client, pods, client.InNamespace(vm.Namespace),
		client.UnsafeDisableDeepCopy) // only read here
	return slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
		return vmNameOf(&pod) == vm.Name && isSizedPod(&pod)
	}), err
}

// keptSize returns the size of each dimension without annotation of the VM. The launcher still asks
// mooring-shim for this size, and the template has another one. During a migration the last status
// has the size, or a launcher if there is no status. reason is the result of findLauncher.
func (d *decision) keptSize(reason api.ResizeReason) api.ResizeAmounts {
	switch {
	case d.pod != nil:
		return withoutAnnotated(d.besideTemplate(d.pod), d.desired)
	case reason == api.ResizeMigrating:
		last, ok := statusIn(d.VM.Annotations)
		if at := slices.IndexFunc(d.Pods, isSizedPod); !ok && at >= 0 {
			last.Kept = d.besideTemplate(d.Pods[at])
		}
		return lastKept(last, d.desired)
	}
	return api.ResizeAmounts{}
}

// lastKept returns the size of the dimensions that the VM no longer annotates, from its last
// status. There the size was a kept one, or a desired one before the removal.
func lastKept(last api.ResizeStatus, desired api.Size) api.ResizeAmounts {
	return withoutAnnotated(api.ResizeAmounts{
		VCPUs:  cmp.Or(last.Kept.VCPUs, last.Desired.VCPUs),
		Memory: cmp.Or(last.Kept.Memory, last.Desired.Memory)}, desired)
}

// withoutAnnotated removes the dimensions with a desired size.
func withoutAnnotated(kept api.ResizeAmounts, desired api.Size) api.ResizeAmounts {
	if desired.VCPUs != 0 {
		kept.VCPUs = 0
	}
	if desired.Memory != 0 {
		kept.Memory = ""
	}
	return kept
}

// besideTemplate returns the size in a launcher's annotations, without dimensions equal to the VM's
// template.
func (d *decision) besideTemplate(pod *corev1.Pod) api.ResizeAmounts {
	asked, template := askedSize(pod), &d.VMI.Spec.Domain
	if int64(asked.VCPUs) == vcpusOf(template.CPU) {
		asked.VCPUs = 0
	}
	if int64(asked.Memory) == guestMemory(template) {
		asked.Memory = 0
	}
	return api.AmountsOf(asked)
}

// isSizedPod reports whether a launcher asks mooring-shim for a size.
func isSizedPod(pod *corev1.Pod) bool { return askedSize(pod) != (api.Size{}) }

// askedSize returns the size that a launcher asks mooring-shim for.
func askedSize(pod *corev1.Pod) api.Size {
	s, err := api.ParseSize(pod.Annotations, compute)
	if err != nil {
		return api.Size{}
	}
	return s
}
