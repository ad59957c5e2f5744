package suite

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

// sidecarName is the name of the container with mooring-shim.
const sidecarName = "shim"

// mooring-shim runs without privileges beside a launcher with a libvirt of its own. It resizes
// the VM, and shuts it down before the agent has to. Until then, the agent refuses a memory limit
// below the VM's requirement.
func TestSidecar(t *testing.T) {
	f := setUpVMs(t)
	f.pushShim(t)
	v := f.runWithSidecar(t,
		sidecarOptions{prepare: []string{"--cpu-capacity=4", "--memory-capacity=1024",
			"--memory-device=dimm"}})
	f.resizeAndCheck(t, v, 3, 192, "--vcpus=3", "--memory=192Mi")
	if got := f.vcpus(t, v, v.domain()); got != "3" {
		t.Errorf("libvirt has %s vCPUs, want 3", got)
	}
	const tooLow = 192*mib + overhead - 4096
	f.checkUpdateRefused(t, v, tooLow, "its VM needs 256Mi")
	if _, err := v.launcher.PreStop(t.Context(), waitTimeout, preStop, "prestop"); err != nil {
		t.Errorf("the hook ended with %v", err)
	}
	f.awaitEnd(t, v.vmProcess)
	f.awaitEvent(t, v.pod, agentapi.ReasonStopConfirmed)
	f.neverReported(t, v.pod, agentapi.ReasonVMTerminated)
	f.checkUpdateApplied(t, v, tooLow) // the requirement ended with the VM
}

// checkUpdateRefused requests another memory limit of the launcher, as kubelet does. It checks
// the refusal and the unchanged limit in the kernel.
func (f fixture) checkUpdateRefused(t *testing.T, v *vm, bytes int64, why string) {
	t.Helper()
	before := f.cgroup(t, v.launcher, "memory.max")
	err := v.launcher.Update(t.Context(), cri.Resources{MemoryLimit: bytes})
	if err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("error of the update: %v, want a refusal: %s", err, why)
	}
	if after := f.cgroup(t, v.launcher, "memory.max"); after != before ||
		after == fmt.Sprint(bytes) {
		t.Errorf("memory.max is %s after a refused update, want %s as before", after, before)
	}
}

// checkUpdateApplied checks that the same update succeeds.
func (f fixture) checkUpdateApplied(t *testing.T, v *vm, bytes int64) {
	t.Helper()
	if err := v.launcher.Update(t.Context(), cri.Resources{MemoryLimit: bytes}); err != nil {
		t.Error(err)
	}
	f.cgroupHas(t, v.launcher, map[string]string{"memory.max": fmt.Sprint(bytes)})
}

// While a shim follows stop requests, it ends the VM of a dead launcher.
func TestShimGetsTheStopRequestFirst(t *testing.T) {
	f := setUpVMs(t)
	f.pushShim(t)
	v := f.runVM(t, placements()[3], vmOptions{script: careless,
		annotations: map[string]string{api.GracePeriodKey: "2m"}})
	f.awaitVM(t, v, agentapi.VMRunning)
	f.runShim(t, v, "--grace-period=4s")
	stored := "/run/mooring/ties/" + v.launcher.ID + ".json"
	kept := func() string { return f.output(t, "cat", stored) }
	eventually(t, "the shim to follow stop requests",
		func() bool { return strings.Contains(kept(), `"taker":{"here":true}`) }, kept)
	each(t, []*vm{v}, func(ctx context.Context, v *vm) error {
		return f.signal(ctx, "KILL", v.launcherProcess)
	})
	if e := f.awaitEvent(t, v.pod, agentapi.ReasonVMShutdown); !strings.Contains(e.Message,
		"the agent asks the pod") {
		t.Errorf("event %q", e.Message)
	}
	f.awaitEnd(t, v.vmProcess)
	f.neverReported(t, v.pod, agentapi.ReasonVMTerminated)
}

// A VM with a VFIO device gets more memory, and QEMU pins all of it. libvirt in an unprivileged
// launcher cannot raise the memory-lock limit, so the agent raises it before the memory is
// plugged. A higher, annotated limit stays unchanged.
func TestHotplugWithALock(t *testing.T) {
	f := setUpVMs(t)
	f.pushShim(t)
	group := f.bindVFIO(t)[0]
	f.output(t, "chown", itoa(libvirtUser), group)
	for name, test := range map[string]struct {
		annotations     map[string]string
		booted, resized int64
	}{
		"as libvirt computes it": {map[string]string{api.DevicesKey: "vfio=1",
			api.GuestMemoryKey: "64Mi"}, gib + 64*mib, gib + 192*mib},
		// and 1Gi of the container
		"explicit": {map[string]string{api.RequiresLockKey: "true", api.ValueKey: "2Gi"},
			3 * gib, 3 * gib},
	} {
		t.Run(name, func(t *testing.T) {
			v := f.runWithSidecar(t, sidecarOptions{
				annotations: test.annotations,
				groups:      []string{group, "/dev/vfio/vfio"}, devices: hostdev(vfioDevices[0]),
				prepare: []string{"--memory-capacity=1024", "--memory-device=dimm",
					"--cpu-capacity=2"},
			})
			f.awaitVMMemlock(t, v, test.booted) // libvirt may first set its own limit
			f.checkPinned(t, v, 64*mib, test.booted)
			r := f.resizeAndCheck(t, v, 1, 192, "--memory=192Mi")
			// the agent would repair the limit
			if plan := strings.Join(r.Plan, "; "); strings.Contains(plan,
				"lower QEMU's memory-lock limit") {
				t.Errorf("plan to grow: %q", plan)
			}
			f.checkPinned(t, v, 192*mib, test.resized)
			f.neverReported(t, v.pod, agentapi.ReasonVMTerminated)
		})
	}
}

// checkPinned checks QEMU's memory-lock limit, and waits until QEMU has locked the guest's memory.
func (f fixture) checkPinned(t *testing.T, v *vm, mem, lock int64) {
	t.Helper()
	if got := f.memlockOf(t, itoa(v.vmProcess.pid)); got != both(lock) {
		t.Errorf("QEMU may lock %s, want %s", got, both(lock))
	}
	pinned := func() string {
		return f.output(t, "sed", "-n", `s/^VmLck:\s*\([0-9]*\) kB$/\1/p`,
			"/proc/"+itoa(v.vmProcess.pid)+"/status")
	}
	eventually(t, "QEMU to pin the guest's memory", func() bool {
		kib, err := strconv.ParseInt(pinned(), 10, 64)
		return err == nil && kib<<10 >= mem
	}, pinned)
}

// sidecarOptions are the options of a VM beside a sidecar.
type sidecarOptions struct {
	annotations map[string]string
	groups      []string // device files of the launcher
	devices     string   // of the domain
	prepare     []string // flags of `mooring domain prepare`
	flags       []string // of mooring-shim

	// linux selects a Linux guest, instead of a firmware with 64 MiB.
	linux bool

	// firmware is a file on the node with another firmware.
	firmware string
	// peer is a directory on the node, mounted as /tmp/peer in the launcher.
	peer string
}

// runWithSidecar runs a pod with a VM that has headroom. Launcher and sidecar share libvirt's
// directory.
func (f fixture) runWithSidecar(t *testing.T, w sidecarOptions) *vm {
	t.Helper()
	v := f.runBesideSidecar(t, w)
	f.startWithSidecar(t, v, w)
	return v
}

// startWithSidecar starts the VM.
func (f fixture) startWithSidecar(t *testing.T, v *vm, w sidecarOptions) {
	t.Helper()
	xml := f.cli(t, append(append([]string{"domain", "prepare"}, w.prepare...),
		f.plainXML(t, v, w))...)
	if err := f.createInPod(t.Context(), v, xml); err != nil {
		t.Fatal(err)
	}
	f.awaitVM(t, v, agentapi.VMRunning)
}

// reaperScript is the first process of a container. It reaps orphaned processes: libvirt waits
// for an ended QEMU until it is reaped.
const reaperScript = `trap 'exit 0' TERM; while :; do busybox sleep 1; done`

// libvirtCache is a shared cache on the node. libvirt keeps its probes of QEMU there, which take
// longer than the start of a VM.
const libvirtCache = "/opt/suite/libvirt-cache"

// runBesideSidecar is runWithSidecar without the start of the VM.
func (f fixture) runBesideSidecar(t *testing.T, w sidecarOptions) *vm {
	t.Helper()
	dir := "/opt/suite/sidecar-" + uuid.NewString()[:8]
	f.output(t, "sh", "-c",
		`install -d -m 0755 /opt/suite && install -d -m 0700 -o "$2" "$1" "$1/run" `+
			`"$1/journal" "$3"`,
		"sh", dir, itoa(libvirtUser), libvirtCache)
	t.Cleanup(func() {
		if _, err := f.Output(cleanUpContext(t), "rm", "-rf", dir); err != nil {
			t.Error(err)
		}
	})
	compute, sidecar := withLibvirt(), shimContainer(dir)
	sidecar.Args = append(sidecar.Args, w.flags...)
	compute.Args = []string{"sh", "-c", reaperScript}
	compute.Devices = w.groups
	compute.Shared = map[string]string{"/tmp/run": dir + "/run", "/tmp/.cache": libvirtCache}
	if w.linux {
		compute.Mounts[guestDir] = guestDir
	}
	if w.firmware != "" {
		compute.Mounts[w.firmware] = w.firmware
	}
	if w.peer != "" {
		compute.Shared["/tmp/peer"] = w.peer
	}
	v := f.runLaunchers(t, placements()[:1], vmOptions{
		annotations: with(map[string]string{api.SidecarKey: sidecarName, api.GracePeriodKey: "2m"},
			w.annotations),
		container: &compute, sidecar: &sidecar,
	})[0]
	v.shared, v.console = dir, dir+"/run/console"
	return v
}

// plainXML writes the VM's XML without headroom to the node, and returns its path.
func (f fixture) plainXML(t *testing.T, v *vm, w sidecarOptions) (file string) {
	t.Helper()
	xml := domainXML(v.domain(), `<memory unit='MiB'>64</memory>`, w.devices)
	if w.linux {
		xml = strings.NewReplacer("path='"+v.domain()+"'", "path='/tmp/run/console'", "</devices>",
			w.devices+"</devices>").Replace(fmt.Sprintf(linuxXML, v.domain()))
	}
	if w.firmware != "" {
		xml = strings.Replace(xml, "</os>",
			"<loader readonly='yes' type='rom'>"+w.firmware+"</loader></os>", 1)
	}
	file = v.shared + "/plain.xml"
	if err := f.PushFrom(t.Context(), strings.NewReader(xml), file, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// overhead is the sidecar's --overhead: the launcher's memory beside the guest's memory.
const overhead = 64 * mib

// shimContainer returns a container that runs mooring-shim with the node's libraries.
func shimContainer(dir string) cri.Container {
	c := withLibvirt()
	c.Name, c.MemoryLimit = sidecarName, gib/8
	c.Mounts[shimBinary] = shimBinary
	c.Shared = map[string]string{"/tmp/run": dir + "/run", "/journal": dir + "/journal"}
	c.Args = []string{
		shimBinary, "run", "--connect=qemu+unix:///session?socket=/tmp/run/libvirt/libvirt-sock",
		"--journal=/journal", fmt.Sprintf("--overhead=%d", overhead), "--grace-period=5s",
	}
	return c
}

// inLauncher runs a line of shell in the environment of the launcher's libvirt.
func (f fixture) inLauncher(t *testing.T, v *vm, line string) string {
	t.Helper()
	out, err := v.launcher.Exec(t.Context(), "sh", "-c", inPod+line)
	if err != nil {
		t.Fatal(err, out)
	}
	return strings.TrimSpace(out)
}

// vcpus returns the number of vCPUs of a domain of the launcher's libvirt.
func (f fixture) vcpus(t *testing.T, v *vm, domain string) string {
	t.Helper()
	return f.inLauncher(t, v, "virsh -c qemu:///session vcpucount --live "+domain)
}
