package guard

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// vms are the VMs of a namespace, and their instances by name.
type vms struct {
	all       []kubevirtv1.VirtualMachine
	instances map[string]*kubevirtv1.VirtualMachineInstance
}

// readVMs reads instances before VMs: virt-controller copies a size from the VM to its instance.
func (c Config) readVMs(ctx context.Context, namespace string) (vms, error) {
	instances, list := &kubevirtv1.VirtualMachineInstanceList{}, &kubevirtv1.VirtualMachineList{}
	if err := c.list(ctx, namespace, instances); err != nil {
		return vms{}, err
	}
	if err := c.list(ctx, namespace, list); err != nil {
		return vms{}, err
	}
	out := vms{list.Items, map[string]*kubevirtv1.VirtualMachineInstance{}}
	for i := range instances.Items {
		out.instances[instances.Items[i].Name] = &instances.Items[i]
	}
	return out, nil
}

// needed returns the launcher that a VM needs next: its first one, or a larger one. nil: none.
func (z sizer) needed(
	ctx context.Context, vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance,
	running bool,
) (*v1alpha1.ReservedPod, error) {
	var pod *v1alpha1.ReservedPod
	var err error
	switch {
	case !running && wantsLauncher(vm):
		pod, err = z.vmPod(ctx, vm)
	case running && vmi != nil && canGrow(vm, vmi):
		pod, err = z.grown(ctx, vm, vmi)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil // without its instance type, for example, it cannot start
	}
	if err != nil {
		return nil, fmt.Errorf("estimating the launcher of VM %q: %w", vm.Name, err)
	}
	return pod, nil
}

// canGrow reports whether a running VM may have a size that its launcher has not. A VM that stops
// needs no larger launcher. A comparison of generations avoids the estimates of most VMs.
func canGrow(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) bool {
	return vm.DeletionTimestamp == nil && vm.Spec.Template != nil && shouldRun(vm) &&
		(edited(vm, vmi) || resizing(vmi))
}

// edited reports whether a VM may have been edited after the start of its instance. virt-controller
// compares templates only, and notes the instance type on the instance.
func edited(vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) bool {
	if vm.Generation != vm.Status.ObservedGeneration {
		return true
	}
	name := vmi.Annotations[kubevirtv1.InstancetypeAnnotation] +
		vmi.Annotations[kubevirtv1.ClusterInstancetypeAnnotation]
	return vm.Spec.Instancetype != nil && vm.Spec.Instancetype.Name != name
}

// resizing reports whether the guest does not have the size of its instance yet. virt-handler sets
// the size in the status at the end of the migration that changes it.
func resizing(vmi *kubevirtv1.VirtualMachineInstance) bool {
	domain, topology := vmi.Spec.Domain, vmi.Status.CurrentCPUTopology
	if topology != nil && domain.CPU != nil && (domain.CPU.Sockets != topology.Sockets ||
		domain.CPU.Cores != topology.Cores || domain.CPU.Threads != topology.Threads) {
		return true
	}
	memory := vmi.Status.Memory
	return memory != nil && memory.GuestRequested != nil && domain.Memory != nil &&
		domain.Memory.Guest != nil && domain.Memory.Guest.Cmp(*memory.GuestRequested) != 0
}

// grown returns the next launcher of a running VM whose user has asked for more. A restart or a
// hot-plug needs the size of the template, and a migration the size of the instance. The larger
// size counts. nil: the user has asked for no more. Overhead of a newer KubeVirt is no growth of
// the user.
func (z sizer) grown(
	ctx context.Context, vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance,
) (*v1alpha1.ReservedPod, error) {
	pod, err := z.vmPod(ctx, vm)
	if err != nil {
		return nil, err
	}
	instance, err := z.instance(vmi)
	if err != nil {
		return nil, err
	}
	present := instance.Pod.Charge
	if !resizing(vmi) && isZero(increase(pod.Charge, present)) {
		return nil, nil
	}
	pod.Charge = quota.Max(pod.Charge, present)
	return pod, nil
}

func (z sizer) vmPod(
	ctx context.Context, vm *kubevirtv1.VirtualMachine,
) (*v1alpha1.ReservedPod, error) {
	launcher, err := z.vm(ctx, vm)
	return &launcher.Pod, err
}
