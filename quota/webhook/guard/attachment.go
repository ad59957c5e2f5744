package guard

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/quota"
)

// attachesToTarget reports whether virt-controller attaches disks to the target pod of a running
// migration. Such a pod passes like the target itself, also where the controller saw the migration
// too late for a reservation. Any user can create a pod with the labels of an attachment pod. The
// source of a migration can be the target of an earlier one.
func (c Config) attachesToTarget(
	ctx context.Context, r admission.Request, s quota.Snapshot, pod *corev1.Pod,
) (bool, error) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || pod.Labels[kubevirtv1.AppLabel] != quota.AttachmentApp {
		return false, nil
	}
	at := slices.IndexFunc(s.Pods, func(p *corev1.Pod) bool { return p.UID == owner.UID })
	if at < 0 || s.Pods[at].Labels[kubevirtv1.MigrationJobLabel] == "" {
		return false, nil
	}
	cluster, err := c.Cluster(ctx)
	if err != nil {
		return false, fmt.Errorf("finding the creator of attachment pods: %w", err)
	}
	if r.UserInfo.Username != cluster.Controller() {
		return false, nil
	}
	migrations := &kubevirtv1.VirtualMachineInstanceMigrationList{}
	if err := c.list(ctx, pod.Namespace, migrations); err != nil {
		return false, err
	}
	return slices.ContainsFunc(migrations.Items,
		func(m kubevirtv1.VirtualMachineInstanceMigration) bool {
			return string(m.UID) == s.Pods[at].Labels[kubevirtv1.MigrationJobLabel] && !m.IsFinal()
		}), nil
}
