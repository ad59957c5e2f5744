package guard

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/estimate"
	"github.com/mooring-vm/mooring/quota/virt"
)

// verify compares a target pod with its migration and its VM in the cluster. Any client that
// reaches the webhook can claim to be virt-controller.
func (c Config) verify(
	ctx context.Context, cluster virt.Cluster, pod *corev1.Pod, charge v1alpha1.ReservedPod,
) error {
	vmi, err := c.migratingVMI(ctx, pod)
	if err != nil {
		return err
	}
	s, err := c.read(ctx, pod.Namespace)
	if err != nil {
		return err
	}
	z, err := c.newSizer(ctx, s, cluster)
	if err != nil {
		return err
	}
	launcher, err := z.instance(vmi)
	if err != nil {
		return err
	}
	return checkPlausible(charge.Charge, launcher, currentCharge(s, vmi, pod),
		limitedResources(s.Quotas))
}

// migratingVMI returns the VMI of the running migration that a target pod belongs to. The VMI must
// control the pod.
func (c Config) migratingVMI(
	ctx context.Context, pod *corev1.Pod,
) (*kubevirtv1.VirtualMachineInstance, error) {
	uid := types.UID(pod.Labels[kubevirtv1.MigrationJobLabel])
	all := &kubevirtv1.VirtualMachineInstanceMigrationList{}
	if err := c.list(ctx, pod.Namespace, all); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all.Items, func(m kubevirtv1.VirtualMachineInstanceMigration) bool {
		return m.UID == uid
	})
	if i < 0 || all.Items[i].IsFinal() {
		return nil, fmt.Errorf("no migration with UID %q is under way", uid)
	}
	vmi := &kubevirtv1.VirtualMachineInstance{}
	name := all.Items[i].Spec.VMIName
	if err := c.Live.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name},
		vmi); err != nil {
		return nil, fmt.Errorf("reading VirtualMachineInstance %q: %w", name, err)
	}
	if !metav1.IsControlledBy(pod, vmi) {
		return nil, fmt.Errorf("the pod's controller is not VirtualMachineInstance %q, which "+
			"migrates", name)
	}
	return vmi, nil
}

// currentCharge returns the charge of the VM's running launcher; with several candidates the
// largest amount of each resource. If KubeVirt lists the VM's active pods, only the listed ones
// count.
func currentCharge(
	s quota.Snapshot, vmi *kubevirtv1.VirtualMachineInstance, target *corev1.Pod,
) corev1.ResourceList {
	charge := corev1.ResourceList{}
	for _, pod := range s.Pods {
		_, active := vmi.Status.ActivePods[pod.UID]
		migrates := pod.Labels[kubevirtv1.MigrationJobLabel] ==
			target.Labels[kubevirtv1.MigrationJobLabel]
		if metav1.IsControlledBy(pod, vmi) && pod.Spec.NodeName == vmi.Status.NodeName &&
			!migrates &&
			(active || len(vmi.Status.ActivePods) == 0) && quota.Charged(pod, s.Now) {
			charge = quota.Max(charge, quota.Charge(pod))
		}
	}
	return charge
}

// limitedResources returns the resources limited by some quota.
func limitedResources(quotas []*corev1.ResourceQuota) corev1.ResourceList {
	names := corev1.ResourceList{}
	for _, q := range quotas {
		names = quota.Max(names, q.Spec.Hard)
	}
	return names
}

// checkPlausible reports an error if a target pod's charge exceeds twice its estimate and twice the
// charge of the running launcher. The VM may have been resized. A limited resource missing from
// both is implausible, unless the estimate has known gaps.
func checkPlausible(
	charge corev1.ResourceList, launcher estimate.Launcher, present, limited corev1.ResourceList,
) error {
	bounds := quota.Max(launcher.Pod.Charge, present)
	var much []string
	for _, name := range sorted(charge) {
		bound, bounded := bounds[name]
		_, matters := limited[name]
		if !bounded && (!matters || len(launcher.Unknown) > 0) {
			continue
		}
		bound = bound.DeepCopy()
		bound.Add(bounds[name])
		if q := charge[name]; q.Cmp(bound) > 0 {
			much = append(much, fmt.Sprintf("%s: %s, want at most %s",
				name, quota.AtLeast(name, q), quota.AtMost(name, bound)))
		}
	}
	if len(much) == 0 {
		return nil
	}
	return fmt.Errorf("its charge is more than twice the estimate for the VM: %s",
		strings.Join(much, "; "))
}
