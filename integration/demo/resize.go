package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/integration/cri"
	"github.com/mooring-vm/mooring/shim/virt/virttest/guest"
)

// linuxXML is a VM with a small Linux guest that confirms its size.
//
//go:embed linux.xml
var linuxXML string

const (
	resizeNumber = 11 // of the pod
	resizeDomain = "demo-resize"
	// resizeDir is the directory on the node with the files of this part.
	resizeDir = "/opt/demo"
	// libvirtUser is the uid of libvirt-qemu. The libvirt in the pod runs as this user.
	libvirtUser = 64055
	sidecarName = "shim"
)

// resizedVM is the VM of this part. It starts in the background, because Linux takes a minute to
// boot in a VM of an emulated node.
type resizedVM struct {
	*demo
	launcher *cri.Instance
	started  chan struct{} // closed after err is set
	err      error
}

// startResizedVM begins to start the VM, and returns at once.
func (d *demo) startResizedVM(ctx context.Context) {
	d.resized = &resizedVM{demo: d, started: make(chan struct{})}
	go func() {
		defer close(d.resized.started)
		if d.resized.err = d.resized.push(ctx); d.resized.err == nil {
			d.resized.err = d.resized.start(ctx)
		}
	}()
}

// awaitStart returns when the VM has started. Its guest may still boot.
func (v *resizedVM) awaitStart() error {
	<-v.started
	return v.err
}

func resizeAnnotations() map[string]string {
	return map[string]string{api.SidecarKey: sidecarName, api.GracePeriodKey: "2m"}
}

func (d *demo) showResize(ctx context.Context) error {
	d.screen.step(podName(resizeNumber) + ", a launcher with its own libvirt, and mooring-shim " +
		"as a sidecar")
	d.showAnnotations(resizeAnnotations())
	v := d.resized
	if err := d.screen.during("starting the pod and its VM", v.awaitStart); err != nil {
		return err
	}
	if err := v.awaitGuest(ctx, 1); err != nil {
		return err
	}
	for _, size := range []struct {
		flags  []string
		vcpus  int
		memory uint64 // MiB
	}{
		{[]string{"--vcpus=2", "--memory=320Mi"}, 2, 320},
		{[]string{"--memory=160Mi"}, 2, 160},
	} {
		if err := v.resize(ctx, size.vcpus, size.memory, size.flags); err != nil {
			return err
		}
	}
	return v.end(ctx)
}

// end deletes the pod, so that its guest leaves the processors to the next part.
func (v *resizedVM) end(ctx context.Context) error {
	return v.screen.during("deleting the pod", func() error {
		return v.launcher.Sandbox.Remove(ctx)
	})
}

// push copies mooring-shim, and the guest's kernel and initramfs, to the node.
func (v *resizedVM) push(ctx context.Context) error {
	kernel, err := guest.Kernel()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mooring-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	g, err := guest.Make(ctx, kernel, dir)
	if err != nil {
		return err
	}
	prepare := `rm -rf "$1" && mkdir -p "$1/guest" && install -d -m 0700 -o "$2" "$1/run" ` +
		`"$1/journal"`
	if _, err := v.node.Output(ctx, "sh", "-c", prepare, "sh", resizeDir,
		strconv.Itoa(libvirtUser)); err != nil {
		return err
	}
	for local, remote := range map[string]string{
		g.Kernel: "/guest/vmlinuz", g.Initramfs: "/guest/initramfs",
		"bin/mooring-shim": "/mooring-shim",
	} {
		if err := v.node.Push(ctx, local, resizeDir+remote, 0o755); err != nil {
			return err
		}
	}
	return v.node.PushFrom(ctx, strings.NewReader(linuxXML), resizeDir+"/plain.xml", 0o644)
}

// start runs the pod, and has its libvirt start the VM with room to grow.
func (v *resizedVM) start(ctx context.Context) error {
	sandbox, err := v.cri.RunPod(ctx, pod(resizeNumber, resizeAnnotations(), false))
	if err != nil {
		return err
	}
	if _, err := sandbox.Run(ctx, sidecarContainer()); err != nil {
		return err
	}
	if v.launcher, err = sandbox.Run(ctx, libvirtContainer()); err != nil {
		return err
	}
	xml, err := v.agent.CLI(ctx, "domain", "prepare", "--memory-capacity=1024", "--cpu-capacity=4",
		resizeDir+"/plain.xml")
	if err != nil {
		return err
	}
	_, err = v.inLauncher(ctx,
		`echo "$1" >/tmp/run/vm.xml; exec virsh -q -c qemu:///session create /tmp/run/vm.xml`, xml)
	return err
}

// container has the node's programs and libraries, as the image of a real launcher has its own.
func container(name string, memoryLimit int64) cri.Container {
	return cri.Container{
		Name: name, MemoryLimit: memoryLimit, User: libvirtUser,
		Mounts: map[string]string{
			"/usr": "/usr", "/lib": "/usr/lib", "/lib64": "/usr/lib64",
			"/etc/passwd": "/etc/passwd", "/etc/group": "/etc/group",
		},
		Shared: map[string]string{"/tmp/run": resizeDir + "/run"},
	}
}

func libvirtContainer() cri.Container {
	c := container("compute", gib)
	c.Mounts["/guest"] = resizeDir + "/guest"
	// libvirt treats an ended QEMU as alive until its parent process reaps it.
	c.Args = []string{"sh", "-c", `trap 'exit 0' TERM; while :; do busybox sleep 1; done`}
	return c
}

func sidecarContainer() cri.Container {
	c := container(sidecarName, 128*mib)
	c.Mounts["/mooring-shim"] = resizeDir + "/mooring-shim"
	c.Shared["/journal"] = resizeDir + "/journal"
	c.Args = []string{
		"/mooring-shim", "run",
		"--connect=qemu+unix:///session?socket=/tmp/run/libvirt/libvirt-sock",
		"--journal=/journal", "--overhead=128Mi", "--grace-period=5s",
		// A guest on an emulated node is slow.
		"--grow-timeout=5m", "--shrink-timeout=10m", "--vcpu-timeout=3m",
	}
	return c
}

// inLauncher runs a shell script with arguments in the launcher, where virsh finds libvirt.
func (v *resizedVM) inLauncher(ctx context.Context, script string, args ...string) (string, error) {
	const environment = `export HOME=/tmp XDG_RUNTIME_DIR=/tmp/run PATH=/usr/sbin:/usr/bin:/bin; `
	return v.launcher.Exec(ctx, append([]string{"sh", "-c", environment + script, "sh"},
		args...)...)
}

// awaitGuest waits until the guest uses this number of vCPUs.
func (v *resizedVM) awaitGuest(ctx context.Context, vcpus int) error {
	cpus := "cpus=0 "
	if vcpus > 1 {
		cpus = fmt.Sprintf("cpus=0-%d ", vcpus-1)
	}
	var said string
	ok, err := v.await(ctx, fmt.Sprintf("the guest to use %d vCPUs", vcpus),
		func() (ok bool, err error) {
			said, err = v.console(ctx)
			return strings.HasPrefix(said, cpus), err
		})
	if err != nil {
		return err
	}
	v.check(ok, "the guest reports "+said, "the guest reports "+said)
	return nil
}

// console is the guest's last line on its console: the vCPUs and the memory that it uses.
func (v *resizedVM) console(ctx context.Context) (string, error) {
	lines, err := v.node.Output(ctx, "sh", "-c",
		`sed -n 's/^GUEST //p' "$1"/run/console | tail -n 1`, "sh", resizeDir)
	return strings.TrimSpace(lines) + " ", err
}

// resize requests a size, as on a node without Kubernetes, and checks the VM's answer.
func (v *resizedVM) resize(ctx context.Context, vcpus int, memory uint64, flags []string) error {
	args := append([]string{"resize", namespace + "/" + podName(resizeNumber), "--wait"}, flags...)
	v.screen.step("mooring " + strings.Join(args, " "))
	err := v.screen.during("the guest adds or releases vCPUs and memory", func() error {
		_, err := v.agent.CLI(ctx, args...)
		return err
	})
	if err != nil {
		return err
	}
	report := "/run/mooring/pods/" + v.launcher.Sandbox.UID + "/resize.json"
	text, err := v.node.Output(ctx, "cat", report)
	if err != nil {
		return err
	}
	var r podapi.Report
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	actual := "unknown"
	if r.Actual != nil {
		actual = fmt.Sprintf("%d vCPUs and %dMi", r.Actual.VCPUs, r.Actual.Memory>>20)
	}
	want := fmt.Sprintf("%d vCPUs and %dMi", vcpus, memory)
	v.check(r.State == podapi.StateDone && actual == want, "the VM has "+actual,
		"the VM has "+actual+", should have "+want)
	return v.awaitGuest(ctx, vcpus)
}
