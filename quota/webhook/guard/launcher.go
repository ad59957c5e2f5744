package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/virt"
)

// exceeded is what KubeVirt looks for in an error to know that a quota is the reason.
const exceeded = "exceeded quota"

// NewLauncher returns the handler for CREATE of launcher pods, after all that mutates them
// and before ResourceQuotas are asked.
//
// It refuses a launcher that would take room that is reserved for migrations. It never
// refuses a migration's target pod: what that is charged it writes to the reservation, in
// [quota.TargetAnnotation], as nobody else sees a pod that a quota then rejects. A target
// pod is one that virt-controller makes; with the label of one, others are still judged.
func NewLauncher(c Config) admission.Handler { return newGuard(c, "launchers", Config.judgeLauncher) }

func (c Config) judgeLauncher(ctx context.Context, r admission.Request) error {
	pod := &corev1.Pod{}
	if err := decode(r.Object, pod); err != nil {
		return err
	}
	if pod.Labels[kubevirtv1.AppLabel] != launcherValue {
		return nil
	}
	pod.Namespace = r.Namespace
	reserve := quota.Reserve(v1alpha1.RoleLauncher, pod)
	migration := pod.Labels[kubevirtv1.MigrationJobLabel]
	if migration == "" {
		return c.judgePod(ctx, pod, reserve)
	}
	cluster, err := virt.Read(ctx, c.Live)
	if err == nil && r.UserInfo.Username != cluster.Controller() {
		return c.judgePod(ctx, pod, reserve)
	}
	if r.DryRun != nil && *r.DryRun {
		return nil
	}
	return c.sayRendered(ctx, client.ObjectKey{Namespace: r.Namespace, Name: migration}, reserve)
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
	return refuse("%s: the launcher of VM %s does not fit: %s", exceeded, vmOf(pod), lacking)
}

// lacking says what there is too little of for a pod that is no migration's; empty: nothing.
func (c Config) lacking(s quota.Snapshot, pod v1alpha1.ReservedPod) string {
	accounts, _ := quota.Accounts(s, c.Quota)
	var errs []string
	for _, a := range accounts {
		if err := a.Check(pod); err != nil {
			errs = append(errs, err.Error())
		}
	}
	return strings.Join(errs, "; ")
}

// sayRendered writes to a reservation what its target pod is charged, unless it is known.
func (c Config) sayRendered(ctx context.Context, key client.ObjectKey, pod v1alpha1.ReservedPod) error {
	r := &v1alpha1.MigrationReservation{}
	if err := c.Live.Get(ctx, key, r); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil // it needs none, or comes later: KubeVirt tries again
		}
		return fmt.Errorf("reading reservation %q: %w", key.Name, err)
	}
	if known(r, pod) {
		return nil
	}
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{ // strings alone: cannot fail
		"uid": r.UID, "annotations": map[string]string{quota.TargetAnnotation: quota.FormatRendered(pod)},
	}})
	if err := c.Client.Patch(ctx, r, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("writing to reservation %q what the target pod is charged: %w", key.Name, err)
	}
	return nil
}

// known says whether a reservation has it already what its target pod is charged.
func known(r *v1alpha1.MigrationReservation, pod v1alpha1.ReservedPod) bool {
	if _, said := r.Annotations[quota.TargetAnnotation]; said {
		seen, err := quota.Rendered(r)
		return err == nil && seen != nil && equality.Semantic.DeepEqual(*seen, pod)
	}
	return slices.ContainsFunc(r.Spec.Pods, func(p v1alpha1.ReservedPod) bool { return equality.Semantic.DeepEqual(p, pod) })
}
