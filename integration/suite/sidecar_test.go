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
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

// sidecarName is the container that runs mooring-shim.
const sidecarName = "shim"

// TestSidecar: mooring-shim beside a launcher that runs a libvirt of its own, without
// any privilege, resizes the VM and has it ended before the agent has to.
func TestSidecar(t *testing.T) {
	f := setUpVMs(t)
	f.pushShim(t)
	v := f.runWithSidecar(t, withSidecar{prepare: []string{"--cpu-capacity=4"}})
	f.resize(t, v, "--vcpus=3")
	if r := f.reported(t, v); r.State != podapi.StateDone || r.Actual == nil || r.Actual.VCPUs != 3 {
		t.Errorf("the pod reports %+v", r)
	}
	if got := f.inLauncher(t, v, "virsh -c qemu:///session vcpucount --live "+v.domain()); got != "3" {
		t.Errorf("libvirt has %s vCPUs, want 3", got)
	}
	if _, err := v.launcher.PreStop(t.Context(), patience, preStop, "prestop"); err != nil {
		t.Errorf("the hook ended with %v", err)
	}
	f.awaitEnd(t, v.process)
	f.awaitEvent(t, v.pod, agentapi.ReasonStopConfirmed)
	f.neverTold(t, v.pod, agentapi.ReasonVMTerminated)
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
// before the memory is plugged.
func TestHotplugWithALock(t *testing.T) {
	f := setUpVMs(t)
	f.pushShim(t)
	group := f.bindVFIO(t)[0]
	f.output(t, "chown", itoa(libvirtUser), group)
	v := f.runWithSidecar(t, withSidecar{
		annotations: map[string]string{api.DevicesKey: "vfio=1", api.GuestMemoryKey: "64Mi"},
		groups:      []string{group, "/dev/vfio/vfio"}, devices: hostdev(vfioDevices[0]),
		prepare: []string{"--memory-capacity=1024", "--memory-device=dimm", "--cpu-capacity=2"},
	})
	f.pins(t, v, 64*mib)
	f.resize(t, v, "--memory=192Mi")
	f.pins(t, v, 192*mib)
	f.neverTold(t, v.pod, agentapi.ReasonVMTerminated)
}

// pins checks that QEMU may lock what libvirt computes for a VM of that size with a VFIO
// device, and waits until it has locked the guest's memory.
func (f fixture) pins(t *testing.T, v *vm, mem int64) {
	t.Helper()
	if got := f.memlockOf(t, itoa(v.process.pid)); got != both(mem+gib) {
		t.Errorf("QEMU may lock %s, want %s", got, both(mem+gib))
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
}

// runWithSidecar runs a pod whose launcher and sidecar share libvirt's directory, and a
// VM that has room for more.
func (f fixture) runWithSidecar(t *testing.T, w withSidecar) *vm {
	t.Helper()
	dir := "/opt/suite/sidecar-" + uuid.NewString()[:8]
	f.output(t, "sh", "-c", `install -d -m 0755 /opt/suite && install -d -m 0700 -o "$2" "$1" "$1/run" "$1/journal"`, "sh", dir, itoa(libvirtUser))
	t.Cleanup(func() {
		if _, err := f.Output(cleanUpContext(t), "rm", "-rf", dir); err != nil {
			t.Error(err)
		}
	})
	compute, sidecar := withLibvirt(), shimContainer(dir)
	sidecar.Args = append(sidecar.Args, w.flags...)
	compute.Devices = w.groups
	if w.linux {
		compute.Mounts[guestDir] = guestDir
	}
	compute.Shared = map[string]string{"/tmp/run": dir + "/run"}
	v := f.runLaunchers(t, placements()[:1], want{
		annotations: with(map[string]string{api.SidecarKey: sidecarName, api.GracePeriodKey: "2m"}, w.annotations),
		container:   &compute, sidecar: &sidecar,
	})[0]
	v.console = dir + "/run/console"
	xml := domainXML(v.domain(), `<memory unit='MiB'>64</memory>`, w.devices)
	if w.linux {
		xml = strings.NewReplacer("path='"+v.domain()+"'", "path='/tmp/run/console'", "</devices>", w.devices+"</devices>").Replace(fmt.Sprintf(linuxXML, v.domain()))
	}
	if err := f.PushFrom(t.Context(), strings.NewReader(xml), dir+"/plain.xml", 0o644); err != nil {
		t.Fatal(err)
	}
	if err := f.createInPod(t.Context(), v, f.cli(t, append(append([]string{"domain", "prepare"}, w.prepare...), dir+"/plain.xml")...)); err != nil {
		t.Fatal(err)
	}
	f.awaitVM(t, v, agentapi.VMRunning)
	return v
}

// shimContainer runs mooring-shim with the node's libraries.
func shimContainer(dir string) cri.Container {
	c := withLibvirt()
	c.Name, c.MemoryLimit = sidecarName, gib/8
	c.Mounts[shimBinary] = shimBinary
	c.Shared = map[string]string{"/tmp/run": dir + "/run", "/journal": dir + "/journal"}
	c.Args = []string{
		shimBinary, "run", "--connect=qemu+unix:///session?socket=/tmp/run/libvirt/libvirt-sock",
		"--journal=/journal", "--overhead=64Mi", "--grace-period=5s",
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
