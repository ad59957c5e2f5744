package resizevm

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
)

// mark labels the instance of a VM before its launcher gets a size. KubeVirt copies the label to
// migration targets, so the API server refuses a target of another size while the controller is
// away. The label stays until the instance ends.
func (r *Reconciler) mark(ctx context.Context, in Input) error {
	if in.VMI == nil || in.VMI.Labels[api.ResizedLabel] == "true" {
		return nil
	}
	patch := rawPatch(types.MergePatchType, map[string]any{"metadata": map[string]any{
		"uid": in.VMI.UID, "labels": map[string]string{api.ResizedLabel: "true"}}})
	if err := r.Client.Patch(ctx, in.VMI.DeepCopy(), patch); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("labelling VirtualMachineInstance %s/%s: %w",
			in.VMI.Namespace, in.VMI.Name, err))
	}
	return nil
}

// markResized labels the instance of a VM that was resized earlier. A failure only leaves the label
// to the next comparison.
func (r *Reconciler) markResized(ctx context.Context, in Input) {
	if r.Options.Observe || !slices.ContainsFunc(in.Pods, isSizedPod) {
		return
	}
	if err := r.mark(ctx, in); err != nil {
		r.Logger.Warn("a resized VM has no label", "error", err)
	}
}
