package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/fencing"
)

// ReleasePods removes the finalizer of fencing from all pods, living ones included. Deleted pods go
// without a proof that their VMs have ended.
func (c *Cluster) ReleasePods(ctx context.Context) error {
	pods := &corev1.PodList{}
	labelled := client.MatchingLabelsSelector{Selector: fencing.Labelled()}
	if err := c.Client.List(ctx, pods, labelled); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	var errs []error
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !slices.Contains(pod.Finalizers, api.PodFinalizer) {
			continue
		}
		what := fmt.Sprintf("remove the finalizer of pod %s/%s", pod.Namespace, pod.Name)
		if pod.DeletionTimestamp != nil {
			what += " (deleted: its VM may still run)"
		}
		errs = append(errs, c.Report.do(what, func() error { return c.releasePod(ctx, pod) }))
	}
	return errors.Join(errs...)
}

// releasePod retries after concurrent changes of the pod.
func (c *Cluster) releasePod(ctx context.Context, pod *corev1.Pod) error {
	return client.IgnoreNotFound(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		return fencing.Release(ctx, c.Client, pod)
	}))
}
