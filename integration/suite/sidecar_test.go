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

// sidecarName is the container that runs mooring-shim.
const sidecarName = "shim"

// TestSidecar: mooring-shim beside a launcher that runs a libvirt of its own, without
// any privilege, resizes the VM and has it ended before the agent has to. Meanwhile
// nobody takes from the launcher the memory that its VM needs.
func TestSidecar(t *testing.T) {
	f := setUpVMs(t)
	f.pushShim(t)
	v := f.runWithSidecar(t, withSidecar{prepare: []string{"--cpu-capacity=4", "--memory-capacity=1024", "--memory-device=dimm"}})
	f.becomes(t, v, 3, 192, "--vcpus=3", "--memory=192Mi")
	if got := f.vcpus(t, v, v.domain()); got != "3" {
		t.Errorf("libvirt has %s vCPUs, want 3", got)
	}
	const tooLow = 192*mib + overhead - 4096
	f.keepsLimit(t, v, tooLow, "its VM needs 256Mi")
	if _, err := v.launcher.PreStop(t.Context(), patience, preStop, "prestop"); err != nil {
		t.Errorf("the hook ended with %v", err)
	}
	f.awaitEnd(t, v.process)
	f.awaitEvent(t, v.pod, agentapi.ReasonStopConfirmed)
	f.neverTold(t, v.pod, agentapi.ReasonVMTerminated)
	f.takesLimit(t, v, tooLow) // which nothing needs any more
}

// keepsLimit asks for a lower memory limit of the launcher, as kubelet does, and wants
// the kernel to have what it had.
func (f fixture) keepsLimit(t *testing.T, v *vm, bytes int64, why string) {
	t.Helper()
	before := f.cgroup(t, v.launcher, "memory.max")
	err := v.launcher.Update(t.Context(), cri.Resources{MemoryLimit: bytes})
	if err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("the update ended with %v, want it refused: %s", err, why)
	}
	if after := f.cgroup(t, v.launcher, "memory.max"); after != before || after == fmt.Sprint(bytes) {
		t.Errorf("memory.max is %s after a refused update, and was %s", after, before)
	}
}

// takesLimit wants the same update to be carried out.
func (f fixture) takesLimit(t *testing.T, v *vm, bytes int64) {
	t.Helper()
	if err := v.launcher.Update(t.Context(), cri.Resources{MemoryLimit: bytes}); err != nil {
		t.Error(err)
	}
	f.cgroupHas(t, v.launcher, map[string]string{"memory.max": fmt.Sprint(bytes)})
}

// TestShimIsAskedFirst: a VM that its launcher has left behind is the shim's to end, as
// long as one follows.
func TestShimIsAskedFirst(t *testing.T) {
	f := setUpVMs(t)
	f.pushShim(t)
	v := f.runVM(t, placements()[3], want{owner: careless, annotations: map[string]string{api.GracePeriodKey: "2m"}})
	f.awaitVM(t, v, agentapi.VMRunning)
	f.runShim(t, v, "--grace-period=4s")
	stored := "/run/mooring/ties/" + v.launcher.ID + ".json"
	kept := func() string { return f.output(t, "cat", stored) }
	eventually(t, "the shim to take requests", func() bool { return strings.Contains(kept(), `"taker":{"here":true}`) }, kept)
	each(t, []*vm{v}, func(ctx context.Context, v *vm) error { return f.signal(ctx, "KILL", v.owner) })
	if e := f.awaitEvent(t, v.pod, agentapi.ReasonVMShutdown); !strings.Contains(e.Message, "the pod is asked") {
		t.Errorf("the agent told %q", e.Message)
	}
	f.awaitEnd(t, v.process)
	f.neverTold(t, v.pod, agentapi.ReasonVMTerminated)
}

// TestHotplugWithALock: a VM with a VFIO device gets more memory, all of which its QEMU
// pins. libvirt in an unprivileged launcher may not raise its lock; the agent does it
// before the memory is plugged. A lock that was given in so many words, and is more than
// libvirt wants, stays what it is.
func TestHotplugWithALock(t *testing.T) {
	f := setUpVMs(t)
	f.pushShim(t)
	group := f.bindVFIO(t)[0]
	f.output(t, "chown", itoa(libvirtUser), group)
	for name, test := range map[string]struct {
		annotations     map[string]string
		booted, resized int64
	}{
		"as libvirt computes it": {map[string]string{api.DevicesKey: "vfio=1", api.GuestMemoryKey: "64Mi"}, gib + 64*mib, gib + 192*mib},
		"explicit":               {map[string]string{api.RequiresLockKey: "true", api.ValueKey: "2Gi"}, 3 * gib, 3 * gib}, // and 1Gi of the container
	} {
		t.Run(name, func(t *testing.T) {
			v := f.runWithSidecar(t, withSidecar{
				annotations: test.annotations, groups: []string{group, "/dev/vfio/vfio"}, devices: hostdev(vfioDevices[0]),
				prepare: []string{"--memory-capacity=1024", "--memory-device=dimm", "--cpu-capacity=2"},
			})
			f.lockedTo(t, v, test.booted) // libvirt may have set its own at first
			f.pins(t, v, 64*mib, test.booted)
			r := f.becomes(t, v, 1, 192, "--memory=192Mi")
			if plan := strings.Join(r.Plan, "; "); strings.Contains(plan, "lower the memory lock") { // which the agent would repair
				t.Errorf("to become larger, the plan was %q", plan)
			}
			f.pins(t, v, 192*mib, test.resized)
			f.neverTold(t, v.pod, agentapi.ReasonVMTerminated)
		})
	}
}

// pins checks that QEMU may lock so much, and waits until it has locked the guest's memory.
func (f fixture) pins(t *testing.T, v *vm, mem, lock int64) {
	t.Helper()
	if got := f.memlockOf(t, itoa(v.process.pid)); got != both(lock) {
		t.Errorf("QEMU may lock %s, want %s", got, both(lock))
	}
	pinned := func() string {
		return f.output(t, "sed", "-n", `s/^VmLck:\s*\([0-9]*\) kB$/\1/p`, "/proc/"+itoa(v.process.pid)+"/status")
	}
	eventually(t, "QEMU to pin the guest's memory", func() bool {
		kib, err := strconv.ParseInt(pinned(), 10, 64)
		return err == nil && kib<<10 >= mem
	}, pinned)
}

// withSidecar is what a VM beside a sidecar has of its own.
type withSidecar struct {
	annotations map[string]string
	groups      []string // device files of the launcher
	devices     string   // of the domain
	prepare     []string // flags, for its headroom
	flags       []string // of mooring-shim

	// linux is a guest that answers, instead of a firmware with 64 MiB.
	linux bool

	// firmware is a file on the node that is the guest, instead.
	firmware string
	// peer is a directory on the node that the launcher sees as /tmp/peer.
	peer string
}

// runWithSidecar runs a pod whose launcher and sidecar share libvirt's directory, and a
// VM that has room for more.
func (f fixture) runWithSidecar(t *testing.T, w withSidecar) *vm {
	t.Helper()
	v := f.runBesideSidecar(t, w)
	f.startWithSidecar(t, v, w)
	return v
}

// startWithSidecar starts the VM.
func (f fixture) startWithSidecar(t *testing.T, v *vm, w withSidecar) {
	t.Helper()
	xml := f.cli(t, append(append([]string{"domain", "prepare"}, w.prepare...), f.plainXML(t, v, w))...)
	if err := f.createInPod(t.Context(), v, xml); err != nil {
		t.Fatal(err)
	}
	f.awaitVM(t, v, agentapi.VMRunning)
}

// reaper is the first process of a container, and waits for what nobody else does: libvirt
// takes a QEMU that has ended for alive until then, and keeps everybody waiting.
const reaper = `trap 'exit 0' TERM; while :; do busybox sleep 1; done`

// libvirtCache is where one libvirt on the node finds what an earlier one has learned of
// QEMU, which takes longer than a VM's start.
const libvirtCache = "/opt/suite/libvirt-cache"

// runBesideSidecar is runWithSidecar without a VM.
func (f fixture) runBesideSidecar(t *testing.T, w withSidecar) *vm {
	t.Helper()
	dir := "/opt/suite/sidecar-" + uuid.NewString()[:8]
	f.output(t, "sh", "-c", `install -d -m 0755 /opt/suite && install -d -m 0700 -o "$2" "$1" "$1/run" "$1/journal" "$3"`,
		"sh", dir, itoa(libvirtUser), libvirtCache)
	t.Cleanup(func() {
		if _, err := f.Output(cleanUpContext(t), "rm", "-rf", dir); err != nil {
			t.Error(err)
		}
	})
	compute, sidecar := withLibvirt(), shimContainer(dir)
	sidecar.Args = append(sidecar.Args, w.flags...)
	compute.Args = []string{"sh", "-c", reaper}
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
	v := f.runLaunchers(t, placements()[:1], want{
		annotations: with(map[string]string{api.SidecarKey: sidecarName, api.GracePeriodKey: "2m"}, w.annotations),
		container:   &compute, sidecar: &sidecar,
	})[0]
	v.shared, v.console = dir, dir+"/run/console"
	return v
}

// plainXML leaves the VM on the node as it would be without headroom, and returns where.
func (f fixture) plainXML(t *testing.T, v *vm, w withSidecar) (file string) {
	t.Helper()
	xml := domainXML(v.domain(), `<memory unit='MiB'>64</memory>`, w.devices)
	if w.linux {
		xml = strings.NewReplacer("path='"+v.domain()+"'", "path='/tmp/run/console'", "</devices>", w.devices+"</devices>").Replace(fmt.Sprintf(linuxXML, v.domain()))
	}
	if w.firmware != "" {
		xml = strings.Replace(xml, "</os>", "<loader readonly='yes' type='rom'>"+w.firmware+"</loader></os>", 1)
	}
	file = v.shared + "/plain.xml"
	if err := f.PushFrom(t.Context(), strings.NewReader(xml), file, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// overhead is what the sidecar takes a launcher to need beside the guest's memory.
const overhead = 64 * mib

// shimContainer runs mooring-shim with the node's libraries.
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

// inLauncher runs a line of shell where the launcher's libvirt is.
func (f fixture) inLauncher(t *testing.T, v *vm, line string) string {
	t.Helper()
	out, err := v.launcher.Exec(t.Context(), "sh", "-c", inPod+line)
	if err != nil {
		t.Fatal(err, out)
	}
	return strings.TrimSpace(out)
}

// vcpus is how many a domain of the launcher's libvirt has.
func (f fixture) vcpus(t *testing.T, v *vm, domain string) string {
	t.Helper()
	return f.inLauncher(t, v, "virsh -c qemu:///session vcpucount --live "+domain)
}
