package resizevm

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/internal/plaintext"
)

// step decides and applies the next step of a VM. If the estimate of its launcher fails, or the API
// server refuses the patch, the status says so. If the patch lowers a memory limit, step tries
// another one that keeps the limit.
func (r *Reconciler) step(ctx context.Context, in Input) (Decision, error) {
	r.markResized(ctx, in)
	d, err := Decide(in)
	if err != nil {
		return d, err
	}
	err = r.apply(ctx, in, d)
	if apierrors.IsInvalid(err) && d.lowersMemoryLimit() && !in.KeepMemoryLimits {
		in.KeepMemoryLimits = true
		kept, keptErr := r.step(ctx, in)
		if keptErr == nil && kept.Status != nil && kept.Status.Reason == api.ResizeDone {
			kept.refuse(err)
		}
		return kept, keptErr
	}
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		d.refuse(err)
	case err != nil:
		return Decision{}, fmt.Errorf("resizing VirtualMachine %s/%s: %w", in.VM.Namespace,
			in.VM.Name, err)
	}
	return d, nil
}

// apply marks the instance and patches the pod, except in mode observe.
func (r *Reconciler) apply(ctx context.Context, in Input, d Decision) error {
	if r.Options.Observe || d.Resources == nil && len(d.Annotations) == 0 {
		return nil
	}
	if err := r.mark(ctx, in); err != nil {
		return err
	}
	switch {
	case d.Resources != nil:
		return r.Client.SubResource("resize").Patch(ctx, d.Pod.DeepCopy(),
			resourcesPatch(d.Pod.UID, *d.Resources))
	case len(d.Annotations) > 0:
		return r.Client.Patch(ctx, d.Pod.DeepCopy(), annotationsPatch(d.Pod.UID, d.Annotations))
	}
	return nil
}

// refuse sets the status after a patch that the API server refused.
func (d *Decision) refuse(err error) {
	if d.Status == nil {
		d.Status = &api.ResizeStatus{}
	}
	d.Status.Reason, d.Status.Message = api.ResizeRefused, plaintext.OneLine(err.Error())
}

func (d *Decision) lowersMemoryLimit() bool {
	if d.Resources == nil {
		return false
	}
	to := d.Resources.Limits[corev1.ResourceMemory]
	for _, c := range d.Pod.Spec.Containers {
		if from := c.Resources.Limits[corev1.ResourceMemory]; c.Name == compute {
			return to.Cmp(from) < 0
		}
	}
	return false
}
