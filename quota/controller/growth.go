package controller

import (
	"context"

	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/estimate"
)

// explain returns a sentence about the causes of a larger target pod, for the end of a report's
// message; empty if they are unknown. It reads from the API server. A reservation grows once or
// twice only.
func (r *Reconciler) explain(ctx context.Context, s quota.Snapshot, of quota.Report) string {
	if of.Growth == nil || len(of.Growth.Amounts) == 0 {
		return ""
	}
	causes, err := r.causes(ctx, s, *of.Growth)
	if err != nil {
		r.Logger.Warn("a target pod is larger than its source pod, and the cause cannot be "+
			"estimated", "namespace", s.Namespace.Name, "vm", of.Growth.VMI.Name, "error", err)
		return ""
	}
	return ". It exceeds the source pod by " + causes
}

func (r *Reconciler) causes(
	ctx context.Context, s quota.Snapshot, g quota.Growth,
) (string, error) {
	vmi, err := r.readVMI(ctx, s.Namespace.Name, quota.VMI{Name: g.VMI.Name, UID: g.VMI.UID})
	if err != nil {
		return "", err
	}
	spec, err := r.estimateInstance(ctx, s, vmi)
	if err != nil {
		return "", err
	}
	present, err := r.estimateInstance(ctx, s, estimate.AtPresentSize(vmi))
	if err != nil {
		return "", err
	}
	return g.Causes(present.Pod.Charge, spec.Pod.Charge), nil
}
