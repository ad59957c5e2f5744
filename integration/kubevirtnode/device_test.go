package kubevirtnode

import (
	"context"
	"fmt"
	"strings"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/hack/kubevirtnode"
)

// device is an unused network controller of the node.
const device = "0000:00:10.0"

// TestVFIO boots a VM with a device, which KubeVirt's device plugin passes through. virt-handler
// sets virtqemud's limit to its own formula, and libvirt lowers QEMU's to the limit that the device
// needs. The agent leaves both.
func TestVFIO(t *testing.T) {
	c := start(t)
	c.requireMooring(t)
	c.bindToVFIO(t)
	vmi := newVMI("vfio", nil)
	vmi.Spec.Domain.Devices.HostDevices = []kubevirtv1.HostDevice{{Name: "nic",
		DeviceName: kubevirtnode.DeviceResource}}
	c.run(t, vmi)
	libvirts := vmi.Spec.Domain.Memory.Guest.Value() + 1<<30
	pod := c.tied(t, vmi).Pod.Name
	c.awaitObserved(t, pod, api.Bytes(libvirts).String())
	if got := c.lockLimit(t, c.qemu(t, vmi)); got != libvirts {
		t.Errorf("QEMU may lock %d bytes, want libvirt's %d", got, libvirts)
	}
	lines, err := c.events(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if strings.HasPrefix(line, string(agentapi.ReasonLimitRepaired)) {
			t.Error(line)
		}
	}
}

// bindToVFIO binds the device to vfio-pci. KubeVirt 1.9.0 also gives the launcher the device's file
// for IOMMUFD. Debian's kernel has no such file, and the launcher would not start
// (kubevirt/kubevirt#18895). A null device takes its place, which libvirt does not open.
func (c *cluster) bindToVFIO(t *testing.T) {
	t.Helper()
	c.onNode(t, "sh", "-ec", `modprobe vfio-pci
		p=/sys/bus/pci/devices/$1
		if [ -e "$p/driver" ]; then echo "$1" >"$p/driver/unbind"; fi
		echo vfio-pci >"$p/driver_override"
		echo "$1" >/sys/bus/pci/drivers_probe
		mkdir -p /dev/vfio/devices
		for file in $(ls "$p/vfio-dev"); do
			[ -e "/dev/vfio/devices/$file" ] || mknod "/dev/vfio/devices/$file" c 1 3
		done`, "sh", device)
}

// awaitObserved waits until the agent has found this lowest limit among the launcher's processes.
func (c *cluster) awaitObserved(t *testing.T, pod, limit string) {
	t.Helper()
	eventually(t, "the agent to find a limit of "+limit, func(ctx context.Context) error {
		all, err := listLaunchers(ctx)
		if err != nil {
			return err
		}
		for _, l := range all {
			if l.Pod.Name == pod && len(l.Settings) > 0 && l.Settings[0].Observed == limit &&
				l.Settings[0].Status == agentapi.StatusApplied {
				return nil
			}
		}
		return fmt.Errorf("launchers are %+v", all)
	})
}
