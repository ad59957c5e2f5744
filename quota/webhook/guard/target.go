package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/virt"
)

// recordTarget writes the target pod's charge to its reservation, unless it is recorded. An error
// explains why it was not written.
func (c Config) recordTarget(
	ctx context.Context, cluster virt.Cluster, pod *corev1.Pod, charge v1alpha1.ReservedPod,
) error {
	key := client.ObjectKey{Namespace: pod.Namespace,
		Name: pod.Labels[kubevirtv1.MigrationJobLabel]}
	r := &v1alpha1.MigrationReservation{}
	if err := c.Live.Get(ctx, key, r); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil // none needed, or not created yet: KubeVirt retries
		}
		return fmt.Errorf("reading reservation %q: %w", key.Name, err)
	}
	if isRecorded(r, charge) {
		return nil
	}
	if err := c.verify(ctx, cluster, pod, charge); err != nil {
		return fmt.Errorf("not recording the charge of the target pod of migration %q: %w",
			r.Spec.Migration.Name, err)
	}
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{ // only strings: cannot fail
		"uid":         r.UID,
		"annotations": map[string]string{quota.TargetAnnotation: quota.FormatRendered(charge)},
	}})
	if err := c.Client.Patch(ctx, r, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("recording the target pod's charge in reservation %q: %w", key.Name, err)
	}
	return nil
}

// isRecorded reports whether a reservation already has the target pod's charge.
func isRecorded(r *v1alpha1.MigrationReservation, pod v1alpha1.ReservedPod) bool {
	if _, said := r.Annotations[quota.TargetAnnotation]; said {
		seen, err := quota.Rendered(r)
		return err == nil && seen != nil && equality.Semantic.DeepEqual(*seen, pod)
	}
	return slices.ContainsFunc(r.Spec.Pods, func(p v1alpha1.ReservedPod) bool {
		return equality.Semantic.DeepEqual(p, pod)
	})
}
