package guard

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// NewLauncher returns the handler for CREATE of launcher pods, after all that mutates them
// and before ResourceQuotas are asked.
//
// It refuses a launcher that would take room that is reserved for migrations. It never
// refuses a migration's target pod: what that is charged it writes to the reservation, in
// [quota.TargetAnnotation], as nobody else sees a pod that a quota then rejects. A target
// pod is one that virt-controller makes; with the label of one, others are still judged.
//
// What is written is first held against the cluster, as a request need not come from the API
// server. Where it is not likely, nothing is written, and the pod passes
// with a warning.
func NewLauncher(c Config) admission.Handler { return newGuard(c, "launchers", Config.judgeLauncher) }

func (c Config) judgeLauncher(ctx context.Context, r admission.Request) error {
	pod := &corev1.Pod{}
	if err := decode(r.Object, pod); err != nil {
		return err
	}
	if pod.Labels[kubevirtv1.AppLabel] != quota.LauncherApp {
		return nil
	}
	pod.Namespace = r.Namespace
	reserve := quota.Reserve(v1alpha1.RoleLauncher, pod)
	if pod.Labels[kubevirtv1.MigrationJobLabel] == "" {
		return c.judgePod(ctx, pod, reserve)
	}
	cluster, err := c.Cluster(ctx)
	if err != nil {
		return fmt.Errorf("finding out who makes the target pods of migrations: %w", err)
	}
	if r.UserInfo.Username != cluster.Controller() {
		return c.judgePod(ctx, pod, reserve)
	}
	if r.DryRun != nil && *r.DryRun {
		return nil
	}
	return c.sayRendered(ctx, cluster, pod, reserve)
}

// judgePod judges a launcher by what it is charged.
func (c Config) judgePod(ctx context.Context, pod *corev1.Pod, reserve v1alpha1.ReservedPod) error {
	s, err := c.read(ctx, pod.Namespace)
	if err != nil || terminating(s.Namespace) {
		return err
	}
	lacking := c.lacking(s, reserve)
	if lacking == "" {
		return nil
	}
	return refusal{quota.RefuseLauncher(vmOf(pod), lacking)}
}

// lacking says what there is too little of for a pod that is no migration's; empty: nothing.
func (c Config) lacking(s quota.Snapshot, pod v1alpha1.ReservedPod) string {
	accounts, _ := quota.Accounts(s, c.Quota)
	return quota.Lacking(accounts, pod)
}
