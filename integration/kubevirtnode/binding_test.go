package kubevirtnode

import (
	"strconv"
	"strings"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/hack/kubevirtnode"
)

// TestLockOfABinding boots a VM whose network binding makes QEMU lock its memory. KubeVirt grants
// no limit for it, and TestLockOfABindingAlone shows the VM without Mooring.
func TestLockOfABinding(t *testing.T) {
	c := start(t)
	c.requireMooring(t)
	annotations := withLock()
	annotations[api.ValueKey] = "4Gi" // QEMU locks all its memory, and emulation needs more
	vmi := newBoundVMI("bound", annotations)
	c.run(t, vmi)
	qemu, guest := c.qemu(t, vmi), vmi.Spec.Domain.Memory.Guest.Value()
	if got := c.lockLimit(t, qemu); got < 4<<30 {
		t.Errorf("QEMU may lock %d bytes, want 4Gi", got)
	}
	if got := c.locked(t, qemu); got < guest {
		t.Errorf("QEMU has locked %d bytes, want the guest's %d or more", got, guest)
	}
}

// newBoundVMI is a VM with the network binding that needs a lock.
func newBoundVMI(name string, annotations map[string]string) *kubevirtv1.VirtualMachineInstance {
	vmi := newVMI(name, annotations)
	d := &vmi.Spec.Domain.Devices
	d.AutoattachPodInterface = nil
	d.Interfaces = []kubevirtv1.Interface{{Name: "default",
		Binding: &kubevirtv1.PluginBinding{Name: kubevirtnode.LockedBinding}}}
	vmi.Spec.Networks = []kubevirtv1.Network{*kubevirtv1.DefaultPodNetwork()}
	return vmi
}

// locked is the locked memory of a process in bytes.
func (c *cluster) locked(t *testing.T, pid string) int64 {
	t.Helper()
	text := strings.TrimSuffix(c.onNode(t, "sed", "-n", "s/^VmLck:[^0-9]*//p",
		"/proc/"+pid+"/status"), " kB")
	kilobytes, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("the locked memory of process %s: %v", pid, err)
	}
	return kilobytes << 10
}
