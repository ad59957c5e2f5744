package kubevirtnode

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/hack/kubevirtnode"
)

// TestResizeVM grows a VM by an annotation of its VirtualMachine, restarts it, and shrinks it.
// virt-handler reconciles beside it. KubeVirt reports each size, and the new launcher has the size
// of the old one.
func TestResizeVM(t *testing.T) {
	c := start(t)
	c.requireMooring(t)
	vmi := newResizable("sized", "true")
	vm := c.runVM(t, vmi)
	template := vmi.Spec.Domain.Memory.Guest.Value()
	before := compute(t, c.launcher(t, vmi)).Resources.Limits.Memory().Value()

	const grown = int64(1536 << 20)
	c.askMemory(t, vm, "1536Mi")
	c.awaitSized(t, vm, vmi, grown)
	limit := compute(t, c.launcher(t, vmi)).Resources.Limits.Memory().Value()
	if limit < before+grown-template {
		t.Errorf("the launcher's limit rose from %d to %d bytes, want the guest's growth", before,
			limit)
	}

	first := c.launcher(t, vmi).Name
	c.restart(t, vmi)
	c.awaitSized(t, vm, vmi, grown)
	if again := c.launcher(t, vmi).Name; again == first {
		t.Errorf("after the restart the launcher is %s again", again)
	}

	c.askMemory(t, vm, "1Gi")
	c.awaitSized(t, vm, vmi, template)
	c.checkLiveUpdate(t, vm, vmi, `{"metadata": {"annotations": {"memory.resize.mooring.dev": null}},
		"spec": {"template": {"spec": {"domain": {"memory": {"guest": "1536Mi"}}}}}}`,
		kubevirtv1.VirtualMachineInstanceMemoryChange)
	if m := vmi.Status.Memory; m.GuestRequested.Value() != template ||
		vmi.Spec.Domain.Memory.Guest.Value() != grown {
		t.Errorf("KubeVirt grows from %s to %s, want from %d to %d bytes", m.GuestRequested,
			vmi.Spec.Domain.Memory.Guest, template, grown)
	}
}

// TestResizeVCPUs plugs a vCPU by an annotation of the VirtualMachine, restarts the VM, and unplugs
// the vCPU.
func TestResizeVCPUs(t *testing.T) {
	c := start(t)
	c.requireMooring(t)
	vmi := newResizable("sized-vcpus", "true")
	vm := c.runVM(t, vmi)
	c.ask(t, vm, api.VCPUsKey, "2")
	c.awaitVCPUs(t, vm, vmi, 2)

	first := c.launcher(t, vmi).Name
	c.restart(t, vmi)
	c.awaitVCPUs(t, vm, vmi, 2)
	if again := c.launcher(t, vmi).Name; again == first {
		t.Errorf("after the restart the launcher is %s again", again)
	}

	c.ask(t, vm, api.VCPUsKey, "1")
	c.awaitVCPUs(t, vm, vmi, 1)
	c.checkLiveUpdate(t, vm, vmi, `{"metadata": {"annotations": {"vcpus.resize.mooring.dev": null}},
		"spec": {"template": {"spec": {"domain": {"cpu": {"sockets": 2}}}}}}`,
		kubevirtv1.VirtualMachineInstanceVCPUChange)
	if from, to := vmi.Status.CurrentCPUTopology.Sockets, vmi.Spec.Domain.CPU.Sockets; from != 1 ||
		to != 2 {
		t.Errorf("KubeVirt grows from %d to %d sockets, want from 1 to 2", from, to)
	}
}

// checkLiveUpdate changes the template of a VM that has its size again. KubeVirt offers the change
// to the running VM, by a condition that its next migration fulfils, and needs no restart.
func (c *cluster) checkLiveUpdate(
	t *testing.T, vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance,
	patch string, want kubevirtv1.VirtualMachineInstanceConditionType,
) {
	t.Helper()
	if err := c.Patch(t.Context(), vm,
		client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the condition "+string(want), func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(vmi), vmi); err != nil {
			return err
		}
		for _, condition := range vmi.Status.Conditions {
			if condition.Type == want {
				return nil
			}
		}
		return fmt.Errorf("conditions are %v", vmi.Status.Conditions)
	})
	c.get(t, vm)
	for _, condition := range vm.Status.Conditions {
		if condition.Type == kubevirtv1.VirtualMachineRestartRequired {
			t.Errorf("the VM needs a restart: %s", condition.Message)
		}
	}
}

// TestGrownMigration moves a VM with a lock that has grown. The target launcher is created for the
// grown guest, and has its memory and its lock. KubeVirt and Mooring report the old size.
func TestGrownMigration(t *testing.T) {
	if os.Getenv(kubevirtnode.EnvSuite) == "" {
		t.Skipf("the emulated QEMU 10.0 of Debian trixie aborts when it sends a plugged "+
			"virtio-mem device: set $%s to a newer release", kubevirtnode.EnvSuite)
	}
	c := startTwoNodes(t)
	vmi := newResizable("grown", "true")
	maps.Copy(vmi.Annotations, withLock())
	vmi.Spec.NodeSelector = nil
	vmi.Spec.EvictionStrategy = new(kubevirtv1.EvictionStrategyLiveMigrate)
	vm := c.runVM(t, vmi)
	const grown = int64(1536 << 20)
	c.askMemory(t, vm, "1536Mi")
	c.awaitSized(t, vm, vmi, grown)
	before := compute(t, c.launcher(t, vmi)).Resources.Limits.Memory().Value()

	source := vmi.Status.NodeName
	c.awaitMigration(t, c.migrate(t, vmi), kubevirtv1.MigrationSucceeded)
	c.awaitMoved(t, vmi, source)
	c.awaitSized(t, vm, vmi, grown)
	if now := compute(t, c.launcher(t, vmi)).Resources.Limits.Memory().Value(); now < before {
		t.Errorf("the target's limit is %d bytes, the source's was %d", now, before)
	}
	target := c.on(t, vmi.Status.NodeName)
	if got := target.lockLimit(t, target.qemu(t, vmi)); got < grown {
		t.Errorf("on the target, QEMU may lock %d bytes, want %d or more", got, grown)
	}
}

// runVM runs a VirtualMachine with the spec of an instance. It is deleted when t ends.
func (c *cluster) runVM(
	t *testing.T, vmi *kubevirtv1.VirtualMachineInstance,
) *kubevirtv1.VirtualMachine {
	t.Helper()
	vm := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: vmi.Name,
		Namespace: vmi.Namespace}}
	vm.Spec.RunStrategy = new(kubevirtv1.RunStrategyAlways)
	vm.Spec.Template = &kubevirtv1.VirtualMachineInstanceTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Annotations: vmi.Annotations}, Spec: vmi.Spec}
	if err := c.Create(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if t.Failed() {
			c.describe(ctx, t, vmi)
		}
		if err := c.Delete(ctx, vm); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
		if err := c.remove(ctx, vmi); err != nil {
			t.Error(err)
		}
	})
	c.awaitPhase(t, vmi, kubevirtv1.Running)
	return vm
}

// restart deletes the instance of a running VM, and returns when its successor runs.
func (c *cluster) restart(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	if err := c.Delete(t.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	c.awaitAgain(t, vmi)
}

func (c *cluster) askMemory(t *testing.T, vm *kubevirtv1.VirtualMachine, memory string) {
	t.Helper()
	c.ask(t, vm, api.ResizeMemoryKey, memory)
}

// ask annotates a VirtualMachine, as a user does.
func (c *cluster) ask(t *testing.T, vm *kubevirtv1.VirtualMachine, key, value string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %q}}}`, key, value)
	if err := c.Patch(t.Context(), vm, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
}

// awaitResized waits until Mooring's status on the VirtualMachine is Resized, with this size.
func (c *cluster) awaitResized(
	t *testing.T, vm *kubevirtv1.VirtualMachine, want func(api.ResizeStatus) bool,
) {
	t.Helper()
	eventually(t, "the status Resized", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(vm), vm); err != nil {
			return err
		}
		text := vm.Annotations[api.ResizeStatusKey]
		var s api.ResizeStatus
		if err := json.Unmarshal([]byte(text), &s); err != nil || s.Reason != api.ResizeDone ||
			s.Actual == nil || !want(s) {
			return fmt.Errorf("status %q, %w", text, err)
		}
		return nil
	})
}

// awaitVCPUs waits until Mooring's status on the VirtualMachine, the launcher and libvirt agree on
// the VM's vCPUs, and the guest uses them.
func (c *cluster) awaitVCPUs(
	t *testing.T, vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, n int,
) {
	t.Helper()
	c.awaitResized(t, vm, func(s api.ResizeStatus) bool { return s.Actual.VCPUs == n })
	c.awaitReport(t, c.launcher(t, vmi).Name, func(l agentapi.Launcher) error {
		a := l.Resize.Report.Actual
		if a == nil || a.VCPUs != n {
			return fmt.Errorf("the launcher has the actual size %+v", a)
		}
		return nil
	})
	if got := c.vcpuThreads(t, vmi); got != n {
		t.Errorf("QEMU has %d vCPUs, want %d", got, n)
	}
	want := "0"
	if n > 1 {
		want = fmt.Sprintf("0-%d", n-1)
	}
	eventually(t, "the guest to use CPUs "+want, func(context.Context) error {
		if got := c.guestCPUs(t, vmi); got != want {
			return fmt.Errorf("it uses %q", got)
		}
		return nil
	})
}

// guestCPUs are the online CPUs that the guest has last reported on its console, such as 0-1.
func (c *cluster) guestCPUs(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) string {
	t.Helper()
	log := c.podLog(t, c.launcher(t, vmi).Name, "guest-console-log")
	_, last, _ := strings.Cut(log[max(0, strings.LastIndex(log, guestReport)):], guestReport)
	cpus, _, _ := strings.Cut(last, " ")
	return cpus
}

// guestReport begins a report of the guest's size.
const guestReport = "GUEST cpus="

// vcpuThreads counts the vCPUs of a VM's QEMU: threads with names like CPU 0/TCG.
func (c *cluster) vcpuThreads(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) int {
	t.Helper()
	names := c.onNode(t, "sh", "-c", "cat /proc/$1/task/*/comm", "sh", c.qemu(t, vmi))
	return strings.Count("\n"+names, "\nCPU ")
}

// awaitSized waits until Mooring's status on the VirtualMachine, the launcher and KubeVirt agree on
// the guest's memory in bytes.
func (c *cluster) awaitSized(
	t *testing.T, vm *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance,
	bytes int64,
) {
	t.Helper()
	c.awaitResized(t, vm, func(s api.ResizeStatus) bool {
		got, err := resource.ParseQuantity(s.Actual.Memory)
		return err == nil && got.Value() == bytes
	})
	c.awaitMemory(t, c.launcher(t, vmi).Name, bytes)
	eventually(t, "KubeVirt to report the size", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(vmi), vmi); err != nil {
			return err
		}
		if m := vmi.Status.Memory; m == nil || m.GuestCurrent == nil ||
			m.GuestCurrent.Value() != bytes {
			return fmt.Errorf("its memory is %+v", m)
		}
		return nil
	})
}
