package suite

import (
	"context"
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
	v := f.runWithSidecar(t)
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

// runWithSidecar runs a pod whose launcher and sidecar share libvirt's directory, and a
// VM that has room for more vCPUs.
func (f fixture) runWithSidecar(t *testing.T) *vm {
	t.Helper()
	dir := "/opt/suite/sidecar-" + uuid.NewString()[:8]
	f.output(t, "sh", "-c", `install -d -m 0755 /opt/suite && install -d -m 0700 -o "$2" "$1" "$1/run" "$1/journal"`, "sh", dir, itoa(libvirtUser))
	t.Cleanup(func() {
		if _, err := f.Output(cleanUpContext(t), "rm", "-rf", dir); err != nil {
			t.Error(err)
		}
	})
	compute, sidecar := withLibvirt(), shimContainer(dir)
	compute.Shared = map[string]string{"/tmp/run": dir + "/run"}
	v := f.runLaunchers(t, placements()[:1], want{
		annotations: map[string]string{api.SidecarKey: sidecarName, api.GracePeriodKey: "2m"},
		container:   &compute, sidecar: &sidecar,
	})[0]
	if err := f.PushFrom(t.Context(), strings.NewReader(domainXML(v.domain(), `<memory unit='MiB'>64</memory>`, "")), dir+"/plain.xml", 0o644); err != nil {
		t.Fatal(err)
	}
	if err := f.createInPod(t.Context(), v, f.cli(t, "domain", "prepare", "--cpu-capacity=4", dir+"/plain.xml")); err != nil {
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
