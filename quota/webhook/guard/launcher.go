package guard

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/webhook/observe"
)

// NewLauncher returns the handler for CREATE of launcher pods. It runs after mutating webhooks and
// before ResourceQuotas.
//
// It refuses a launcher that would use quota reserved for migrations. It refuses a migration's
// target pod only beyond a strict maintenance share. It writes the target pod's charge to the
// reservation, in [quota.TargetAnnotation], because only admission sees a pod that a quota rejects.
// A target pod is one created by virt-controller. Other pods with the label of a target pod are
// checked like any launcher.
//
// Since a request need not come from the API server, the guard first compares the charge with the
// cluster. An implausible charge is not written, and the pod passes with a warning.
func NewLauncher(c Config) admission.Handler {
	return newGuard(c, "launchers", Config.judgeLauncher)
}

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
		return fmt.Errorf("finding the creator of target pods: %w", err)
	}
	if r.UserInfo.Username != cluster.Controller() {
		return c.judgePod(ctx, pod, reserve)
	}
	if r.DryRun == nil || !*r.DryRun {
		err = c.recordTarget(ctx, cluster, pod, reserve)
	}
	return errors.Join(c.judgeTarget(ctx, pod, reserve), err)
}

// judgePod checks a launcher by its charge.
func (c Config) judgePod(ctx context.Context, pod *corev1.Pod, reserve v1alpha1.ReservedPod) error {
	s, err := c.read(ctx, pod.Namespace)
	if err != nil || terminating(s.Namespace) || c.open(s) {
		return err
	}
	accounts, faults := quota.Accounts(s, c.Quota)
	lacking := quota.Lacking(accounts, reserve)
	if err := quota.UnknownRoom(s.Quotas, faults, reserve, c.Quota); err != nil {
		lacking = describeUnknownRoom(err)
	}
	if lacking == "" {
		return nil
	}
	return refusal{quota.RefuseLauncher(vmOf(pod), lacking), observe.Owner(pod)}
}

// describeUnknownRoom explains why no pod fits.
func describeUnknownRoom(fault error) string {
	return fmt.Sprintf("the room that migrations reserve is unknown: %v. Try again when an "+
		"administrator has repaired it", fault)
}
