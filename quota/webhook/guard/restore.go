package guard

import (
	"context"
	"fmt"

	kubevirtv1 "kubevirt.io/api/core/v1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// NewRestore returns the handler for CREATE of VirtualMachineRestores. It refuses a restore if its
// VM would start and lack room. KubeVirt keeps the run strategy of a restored VM. A VM created by
// the restore is halted and passes.
func NewRestore(c Config) admission.Handler {
	return newGuard(c, "virtualmachinerestores", Config.judgeRestore)
}

func (c Config) judgeRestore(ctx context.Context, r admission.Request) error {
	restore := &snapshotv1beta1.VirtualMachineRestore{}
	if err := decode(r.Object, restore); err != nil {
		return err
	}
	vm := &kubevirtv1.VirtualMachine{}
	target := restore.Spec.Target
	if target.Kind != kubevirtv1.VirtualMachineGroupVersionKind.Kind {
		return nil
	}
	if err := c.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: target.Name},
		vm); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("reading VirtualMachine %q: %w", target.Name, err)
	}
	if vm.Spec.Running != nil || !shouldRun(vm) {
		return nil
	}
	if err := c.applySnapshot(ctx, restore.Spec.VirtualMachineSnapshotName, vm); err != nil {
		return err
	}
	if vm.Spec.Template == nil {
		return nil
	}
	what := "VirtualMachine " + vm.Name + " as snapshot " +
		restore.Spec.VirtualMachineSnapshotName + " has it"
	d, err := c.readDemand(ctx, r.UserInfo.Username, nil, vm, what)
	if err != nil || d == nil {
		return err
	}
	return d.check(nil)
}

// applySnapshot sets a VM's spec to that of a snapshot. A snapshot without content leaves the VM
// unchanged.
func (c Config) applySnapshot(
	ctx context.Context, name string, vm *kubevirtv1.VirtualMachine,
) error {
	snapshot, content := &snapshotv1beta1.VirtualMachineSnapshot{},
		&snapshotv1beta1.VirtualMachineSnapshotContent{}
	kinds := snapshotv1beta1.SchemeGroupVersion
	key := client.ObjectKey{Namespace: vm.Namespace, Name: name}
	if err := get(ctx, c.Live, kinds.WithKind("VirtualMachineSnapshot"), key, snapshot); err !=
		nil {
		return err
	}
	if snapshot.Status == nil || snapshot.Status.VirtualMachineSnapshotContentName == nil {
		return nil
	}
	key.Name = *snapshot.Status.VirtualMachineSnapshotContentName
	if err := get(ctx, c.Live, kinds.WithKind("VirtualMachineSnapshotContent"), key,
		content); err != nil {
		return err
	}
	if source := content.Spec.Source.VirtualMachine; source != nil {
		vm.Spec.Template, vm.Spec.Instancetype, vm.Spec.Preference = source.Spec.Template,
			source.Spec.Instancetype, source.Spec.Preference
		vm.Status.InstancetypeRef, vm.Status.PreferenceRef = source.Status.InstancetypeRef,
			source.Status.PreferenceRef
	}
	return nil
}
