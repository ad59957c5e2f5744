package suite

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/integration/cri"
)

// vfioDevices are unused network controllers of the node.
var vfioDevices = []string{"0000:00:10.0", "0000:00:11.0"}

// bindVFIO binds the devices to vfio-pci, and returns the device files of their IOMMU groups.
func (f fixture) bindVFIO(t *testing.T) []string {
	t.Helper()
	const script = `modprobe vfio-pci && for d in "$@"; do
		p=/sys/bus/pci/devices/$d
		[ "$(basename "$(readlink "$p/driver")")" = vfio-pci ] || { echo vfio-pci >"$p/driver_override" && echo "$d" >/sys/bus/pci/drivers_probe; } || exit
		echo "/dev/vfio/$(basename "$(readlink "$p/iommu_group")")"
	done`
	return strings.Fields(
		f.output(t, append([]string{"sh", "-c", script, "sh"}, vfioDevices...)...))
}

// qemu returns a container that runs the node's QEMU with passed-through devices. Like a
// launcher, it runs as root without CAP_IPC_LOCK.
func qemu(groups []string, devices ...string) cri.Container {
	args := []string{"busybox", "chroot", "/node", "qemu-system-x86_64", "-machine",
		"q35,accel=tcg",
		"-m", "256",
		"-nodefaults", "-no-user-config", "-display", "none", "-S"}
	for _, d := range devices {
		args = append(args, "-device", d)
	}
	return cri.Container{Args: args, MemoryLimit: gib, Devices: append(groups, "/dev/vfio/vfio"),
		Mounts: map[string]string{"/node": "/"}}
}

// locked returns the locked memory of a container's first process, in bytes.
func (f fixture) locked(t *testing.T, i *cri.Instance) int64 {
	t.Helper()
	text := f.output(t, "sed", "-n", `s/^VmLck:\s*\([0-9]*\) kB$/\1/p`,
		fmt.Sprintf("/proc/%d/status", f.pid(t, i)))
	kib, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

func TestCoreVFIO(t *testing.T) {
	claim(t, "QEMU with VFIO devices starts only in a launcher that declares them")
	f := setUp(t)
	groups := f.bindVFIO(t)
	vfio := func(i int) string { return "vfio-pci,host=" + vfioDevices[i] }
	for name, test := range map[string]struct {
		declared string
		devices  []string
		pinned   int64
	}{
		"one device":  {"vfio=1", []string{vfio(0)}, 256 * mib},
		"two devices": {"vfio=2", []string{vfio(0), vfio(1)}, 256 * mib},
		"two with an IOMMU": {"vfio=2,iommu",
			[]string{"intel-iommu,intremap=off,caching-mode=on", vfio(0), vfio(1)}, 512 * mib},
	} {
		t.Run(name, func(t *testing.T) {
			p := launcher(map[string]string{api.DevicesKey: test.declared,
				api.GuestMemoryKey: "256Mi"})
			i := f.run(t, p, qemu(groups, test.devices...))
			eventually(t, "QEMU to have pinned the guest's memory",
				func() bool { return f.locked(t, i) >= test.pinned },
				func() string { return fmt.Sprint(f.locked(t, i)) + " bytes: " + f.log(t, p) })
		})
	}
	t.Run("no device declared", func(t *testing.T) {
		p := launcher(nil)
		f.run(t, p, qemu(groups, vfio(0)))
		eventually(t, "QEMU to fail",
			func() bool { return strings.Contains(f.log(t, p), "Cannot allocate memory") },
			func() string { return f.log(t, p) })
	})
}

// log returns the output of the container called compute.
func (f fixture) log(t *testing.T, p cri.Pod) string {
	t.Helper()
	return f.output(t, "cat", fmt.Sprintf("/var/log/pods/%s_%s_%s/compute.log", p.Namespace, p.Name,
		p.UID))
}
