package quota

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// TestGuardedRestores restores a VM to an earlier, larger size. The cluster has no storage for
// snapshots of volumes, so the test makes the snapshot objects.
func TestGuardedRestores(t *testing.T) {
	c, _ := startGuarded(t)
	c.Configure(t,
		`{"spec": {"configuration": {"developerConfiguration": {"featureGates": ["Snapshot"]}}}}`)
	ns := c.Namespace(t, list("requests.memory", "2Gi"))
	withoutController(t, c) // it would take snapshots and start VMs
	vm := newVM(ns, "vm", kubevirtv1.RunStrategyAlways)
	wantPass(t, c.Client.Create(t.Context(), vm))
	large := vm.DeepCopy()
	large.Spec.Template.Spec.Domain.Memory.Guest = new(resource.MustParse("2Gi"))
	snapshot(t, c, "large", large)
	snapshot(t, c, "small", vm)
	eventually(t, "restores to be made, and judged", func() error {
		return checkRefusal(c.Client.Create(t.Context(), restore(ns, "large"), client.DryRunAll),
			"virtualmachinerestores.guard.mooring.dev", "VirtualMachine vm as snapshot large "+
				"has it", "requests.memory: requested")
	})
	wantPass(t, c.Client.Create(t.Context(), restore(ns, "small"), client.DryRunAll))
	wantPass(t, c.Client.Patch(t.Context(), vm, merge(`{"spec": {"runStrategy": "Halted"}}`)))
	wantPass(t, c.Client.Create(t.Context(), restore(ns, "large"), client.DryRunAll))
}

// withoutController stops virt-controller until t ends.
func withoutController(t *testing.T, c *kubevirttest.Cluster) {
	t.Helper()
	if err := c.KubeVirt.StopController(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if err := c.KubeVirt.StartController(ctx); err != nil {
			t.Error(err)
		}
	})
}

// snapshot makes a completed snapshot of the given VM.
func snapshot(t *testing.T, c *kubevirttest.Cluster, name string, vm *kubevirtv1.VirtualMachine) {
	t.Helper()
	s := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"source": map[string]any{"apiGroup": "kubevirt.io", "kind": "VirtualMachine",
			"name": vm.Name},
	}}}
	s.SetGroupVersionKind(snapshotv1beta1.SchemeGroupVersion.WithKind("VirtualMachineSnapshot"))
	s.SetNamespace(vm.Namespace)
	s.SetName(name)
	eventually(t, "snapshots to be allowed", func() error {
		return c.Client.Create(t.Context(), s)
	})
	status := merge(
		fmt.Sprintf(
			`{"status": {"readyToUse": true, "sourceUID": %q, `+
				`"virtualMachineSnapshotContentName": %q}}`,
			vm.UID, name))
	if err := c.Client.Patch(t.Context(), s.DeepCopy(), status); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Status().Patch(t.Context(), s, status); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	content := &snapshotv1beta1.VirtualMachineSnapshotContent{}
	content.Namespace, content.Name = vm.Namespace, name
	content.Spec.VirtualMachineSnapshotName = &name
	content.Spec.Source.VirtualMachine = &snapshotv1beta1.VirtualMachine{ObjectMeta: vm.ObjectMeta,
		Spec: vm.Spec}
	createAs(t, c, content,
		snapshotv1beta1.SchemeGroupVersion.WithKind("VirtualMachineSnapshotContent"))
}

func restore(namespace, snapshot string) *unstructured.Unstructured {
	r := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"target": map[string]any{"apiGroup": "kubevirt.io",
			"kind": "VirtualMachine", "name": "vm"},
		"virtualMachineSnapshotName": snapshot,
	}}}
	r.SetGroupVersionKind(snapshotv1beta1.SchemeGroupVersion.WithKind("VirtualMachineRestore"))
	r.SetNamespace(namespace)
	r.SetName("restore")
	return r
}

// testInstanceTypeOverQuota expects the guard to count the size of the instance type.
func testInstanceTypeOverQuota(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, list("requests.memory", "2Gi"))
	for name, memory := range map[string]string{"small": "1Gi", "large": "2Gi"} {
		size := &instancetypev1beta1.VirtualMachineInstancetype{}
		size.Namespace, size.Name = ns, name
		size.Spec.CPU.Guest, size.Spec.Memory.Guest = 2, resource.MustParse(memory)
		createAs(t, c, size,
			instancetypev1beta1.SchemeGroupVersion.WithKind("VirtualMachineInstancetype"))
	}
	typed := func(name string) *kubevirtv1.VirtualMachine {
		vm := newVM(ns, name, kubevirtv1.RunStrategyAlways)
		vm.Spec.Template.Spec.Domain.CPU, vm.Spec.Template.Spec.Domain.Memory = nil, nil
		vm.Spec.Instancetype = &kubevirtv1.InstancetypeMatcher{Name: name,
			Kind: "VirtualMachineInstancetype"}
		return vm
	}
	wantRefusal(t, c.Client.Create(t.Context(), typed("large")), "VirtualMachine large",
		"requests.memory: requested")
	wantPass(t, c.Client.Create(t.Context(), typed("small")))
	awaitVMRunning(t, c, typed("small"))
}
