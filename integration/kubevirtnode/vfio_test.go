package kubevirtnode

import (
	"context"
	"errors"
	"strings"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/hack/kubevirtnode"
)

// device is an unused network controller of the node.
const device = "0000:00:10.0"

// TestVFIO boots a VM with a device, which KubeVirt's device plugin passes through. virt-handler
// sets virtqemud's limit to its own formula. Mooring's is larger by its roundings, and the agent
// raises the limit again.
func TestVFIO(t *testing.T) {
	c := start(t)
	c.requireMooring(t)
	c.onNode(t, "sh", "-c", `modprobe vfio-pci && p=/sys/bus/pci/devices/$1 &&
		if [ -e "$p/driver" ]; then echo "$1" >"$p/driver/unbind"; fi &&
		echo vfio-pci >"$p/driver_override" && echo "$1" >/sys/bus/pci/drivers_probe`, "sh", device)
	vmi := newVMI("vfio", nil)
	vmi.Spec.Domain.Devices.HostDevices = []kubevirtv1.HostDevice{{Name: "nic",
		DeviceName: kubevirtnode.DeviceResource}}
	c.run(t, vmi)
	guest := vmi.Spec.Domain.Memory.Guest.Value()
	if got := c.lockLimit(t, c.qemu(t, vmi)); got < guest+1<<30 {
		t.Errorf("QEMU may lock %d bytes, want the guest's %d and 1 GiB", got, guest)
	}
	pod := c.tied(t, vmi).Pod.Name
	const documented = `docs/explanation/kubevirt-limits.md, "When they disagree"`
	expectFailure(t, documented, func(ctx context.Context) error {
		lines, err := c.events(ctx, pod)
		for _, line := range lines {
			if strings.HasPrefix(line, string(agentapi.ReasonLimitRepaired)) {
				err = errors.Join(err, errors.New(line))
			}
		}
		return err
	})
}
