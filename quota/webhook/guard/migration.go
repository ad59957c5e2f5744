package guard

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/webhook/observe"
)

// NewMigration returns the handler for CREATE of VirtualMachineInstanceMigrations. If the
// namespace's maintenance share is strict, it refuses a user's migration beyond the share.
// Migrations of virt-controller pass, because they evacuate nodes: they wait for the share.
func NewMigration(c Config) admission.Handler {
	return newGuard(c, "virtualmachineinstancemigrations", Config.judgeMigration)
}

func (c Config) judgeMigration(ctx context.Context, r admission.Request) error {
	m := &kubevirtv1.VirtualMachineInstanceMigration{}
	if err := decode(r.Object, m); err != nil {
		return err
	}
	if strict, err := c.strict(ctx, r.Namespace); err != nil || !strict || m.Spec.SendTo != nil {
		return err // an outgoing cross-cluster migration has no target pod here
	}
	cluster, err := c.Cluster(ctx)
	if err != nil {
		return fmt.Errorf("finding the creator of evacuations: %w", err)
	}
	if r.UserInfo.Username == cluster.Controller() {
		return nil
	}
	s, err := c.read(ctx, r.Namespace)
	if err != nil || terminating(s.Namespace) || c.open(s) {
		return err
	}
	at := slices.IndexFunc(s.Pods, func(p *corev1.Pod) bool {
		return p.Labels[kubevirtv1.AppLabel] == quota.LauncherApp && vmOf(p) == m.Spec.VMIName &&
			quota.Charged(p, s.Now)
	})
	if at < 0 {
		return nil // KubeVirt does not migrate it
	}
	const name = "requested"
	lacking := c.lackingShare(s, name, quota.Reserve(v1alpha1.RoleLauncher, s.Pods[at]))
	if lacking == "" {
		return nil
	}
	return refuse("VM %s cannot migrate now: %s. Wait until other live migrations have ended, or "+
		"enlarge the share", m.Spec.VMIName, lacking)
}

// judgeTarget refuses a target pod without room in a strict maintenance share. KubeVirt tries
// again.
func (c Config) judgeTarget(
	ctx context.Context, pod *corev1.Pod, reserve v1alpha1.ReservedPod,
) error {
	if strict, err := c.strict(ctx, pod.Namespace); err != nil || !strict {
		return err
	}
	s, err := c.read(ctx, pod.Namespace)
	if err != nil || terminating(s.Namespace) || c.open(s) {
		return err
	}
	lacking := c.lackingShare(s, pod.Labels[kubevirtv1.MigrationJobLabel], reserve)
	if lacking == "" {
		return nil
	}
	return refusal{quota.RefuseLauncher(vmOf(pod), lacking), observe.Owner(pod)}
}

// strict reports whether the maintenance share of a namespace is strict. An unreadable share has no
// effect.
func (c Config) strict(ctx context.Context, namespace string) (bool, error) {
	ns := &corev1.Namespace{}
	if err := c.Live.Get(ctx, client.ObjectKey{Name: namespace}, ns); err != nil {
		return false, fmt.Errorf("reading namespace %q: %w", namespace, err)
	}
	share, err := quota.MaintenanceOf(ns, c.Quota)
	return err == nil && share.Strict, nil
}

// lackingShare describes the shortage of strict shares for a target pod. Earlier reservations come
// first. The migration may have no reservation yet.
func (c Config) lackingShare(
	s quota.Snapshot, migration string, target v1alpha1.ReservedPod,
) string {
	r := &v1alpha1.MigrationReservation{}
	r.Name = migration
	s.Reservations = slices.Clone(s.Reservations)
	at := slices.IndexFunc(s.Reservations, func(r *v1alpha1.MigrationReservation) bool {
		return r.Name == migration
	})
	if at < 0 {
		s.Reservations = append(s.Reservations, r)
	} else {
		r = s.Reservations[at].DeepCopy()
		s.Reservations[at] = r
	}
	r.Spec.Pods = append(slices.DeleteFunc(r.Spec.Pods, func(p v1alpha1.ReservedPod) bool {
		return p.Role == target.Role
	}), target)
	accounts, _ := quota.Accounts(s, c.Quota)
	return quota.LackingShare(accounts, migration)
}
