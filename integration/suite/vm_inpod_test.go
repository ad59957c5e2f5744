package suite

import (
	"context"
	"testing"

	"github.com/mooring-vm/mooring/integration/cri"
)

// libvirtUser is Debian's libvirt-qemu: in a pod libvirt runs without root, in session mode, as
// KubeVirt's does.
const libvirtUser = 64055

// withLibvirt is a launcher that can run a libvirt of its own, of the node's files.
func withLibvirt() cri.Container {
	c := launcherContainer(dutiful)
	c.User = libvirtUser
	c.Mounts = map[string]string{
		"/usr": "/usr", "/lib": "/usr/lib", "/lib64": "/usr/lib64",
		"/etc/passwd": "/etc/passwd", "/etc/group": "/etc/group",
	}
	return c
}

// inPod sets the environment in which libvirt and virsh find each other in a pod.
const inPod = `export HOME=/tmp XDG_RUNTIME_DIR=/tmp/run PATH=/usr/sbin:/usr/bin:/bin; mkdir -p ` +
	`/tmp/run; `

// startInPod starts a VM in a launcher. virsh starts the libvirt there by itself.
func (f fixture) startInPod(ctx context.Context, v *vm) error {
	return f.createInPod(ctx, v, domainXML(v.domain(), `<memory unit='MiB'>64</memory>`, ""),
		"--paused")
}

func (f fixture) createInPod(ctx context.Context, v *vm, xml string, flags ...string) error {
	const script = inPod +
		`echo "$1" >/tmp/run/vm.xml; shift; exec virsh -q -c qemu:///session create ` +
		`/tmp/run/vm.xml "$@"`
	if _, err := v.launcher.Exec(ctx, append([]string{"sh", "-c", script, "sh", xml},
		flags...)...); err != nil {
		return err
	}
	return f.findVMProcess(ctx, v)
}

// runInPod runs a launcher with a libvirt of its own and a VM.
func (f fixture) runInPod(t *testing.T, at placement, w vmOptions) *vm {
	t.Helper()
	c := withLibvirt()
	w.container = &c
	v := f.runLaunchers(t, []placement{at}, w)[0]
	if err := f.startInPod(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestLibvirtInAPod(t *testing.T) {
	f := withoutSetUp(t)
	v := f.runInPod(t, placements()[2], vmOptions{pod: unmanagedPod})
	out, err := v.launcher.Exec(t.Context(), "sh", "-c",
		inPod+"kill -9 $(cat /tmp/run/libvirt/libvirtd.pid)")
	if err != nil {
		t.Fatal(err, out)
	}
	f.checkBothAlive(t, v)
}
