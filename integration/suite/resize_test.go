package suite

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/virt/virttest/guest"
)

// guestDir has kernel and initramfs of the Linux guest on the node.
const guestDir = "/opt/suite/guest"

// linuxXML is the XML of a VM with a Linux guest and without headroom.
const linuxXML = `<domain type='qemu'>
  <name>%s</name><memory unit='MiB'>160</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type>
    <kernel>` + guestDir + `/vmlinuz</kernel><initrd>` + guestDir + `/initramfs</initrd><cmdline>` + guest.Arguments + `</cmdline></os>
  <features><acpi/><apic/><smm state='off'/></features>
  <on_poweroff>destroy</on_poweroff><on_crash>destroy</on_crash>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator><controller type='usb' model='none'/>
    <serial type='file'><source path='%[1]s'/></serial>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <memballoon model='virtio'/>
  </devices>
</domain>
`

// A real guest of the node's libvirt gets the sizes that its pod requests. At the end, the shim
// shuts it down.
func TestResize(t *testing.T) {
	requireLinuxGuest(t)
	f := setUpVMs(t)
	f.pushGuest(t)
	f.pushShim(t)
	annotations := map[string]string{api.RequiresLockKey: "true", api.GracePeriodKey: "60s"}
	v := f.runLaunchers(t, placements()[3:], vmOptions{annotations: annotations})[0]
	f.startLinux(t, v)
	f.awaitVM(t, v, agentapi.VMRunning)
	f.runShim(t, v, append(slowGuest(), "--grace-period=50s")...)

	f.resizeAndCheck(t, v, 2, 320, "--vcpus=2", "--memory=320Mi", "--cpu-quota=150%",
		"--cpu-shares=200")
	f.awaitConsole(t, v, "cpus=0-1 ")
	if got := f.output(t, "virsh", "vcpucount", "--live", v.domain()); strings.TrimSpace(got) !=
		"2" {
		t.Errorf("libvirt has %s vCPUs", got)
	}
	f.awaitCPUTime(t, v, 2, "75000 100000", "200")
	f.resizeAndCheck(t, v, 2, 320, "--cpu-quota=80%")
	f.awaitCPUTime(t, v, 2, "40000 100000", "200")
	if r := f.resizeAndCheck(t, v, 2, 160, "--memory=160Mi", "--cpu-quota=none"); r.Actual.Quota !=
		"none" {
		t.Errorf("the pod reports %+v", r)
	}
	f.awaitCPUTime(t, v, 2, "max 100000", "200")
	if _, err := v.launcher.PreStop(t.Context(), waitTimeout, preStop, "prestop"); err != nil {
		t.Errorf("the hook ended with %v", err)
	}
	f.awaitConsole(t, v, "power off")
	f.awaitEnd(t, v.vmProcess)
	f.neverReported(t, v.pod, agentapi.ReasonVMTerminated)
}

// A Linux guest with a VFIO device grows and shrinks by DIMM and vCPUs. It runs in an
// unprivileged launcher with a libvirt of its own. At each size, QEMU has the memory-lock limit
// that libvirt computes.
func TestResizeWithALock(t *testing.T) {
	requireLinuxGuest(t)
	f := setUpVMs(t)
	f.pushGuest(t)
	f.pushShim(t)
	group := f.bindVFIO(t)[0]
	f.output(t, "chown", itoa(libvirtUser), group)
	v := f.runWithSidecar(t, sidecarOptions{
		linux:       true,
		annotations: map[string]string{api.DevicesKey: "vfio=1", api.GuestMemoryKey: "160Mi"},
		groups:      []string{group, "/dev/vfio/vfio"}, devices: hostdev(vfioDevices[0]),
		prepare: []string{"--memory-capacity=1024", "--memory-device=dimm", "--cpu-capacity=4"},
		flags:   slowGuest(),
	})
	f.awaitConsole(t, v, "cpus=0 ")
	f.checkPinned(t, v, 160*mib, 160*mib+gib)
	f.resizeAndCheck(t, v, 4, 160, "--vcpus=4")
	f.awaitConsole(t, v, "cpus=0-3 ")
	f.resizeAndCheck(t, v, 4, 288, "--memory=288Mi")
	f.checkPinned(t, v, 288*mib, 288*mib+gib)
	f.resizeAndCheck(t, v, 4, 160, "--memory=160Mi")
	f.checkPinned(t, v, 160*mib, 160*mib+gib)
	f.fewerVCPUs(t, v, 2)
	f.neverReported(t, v.pod, agentapi.ReasonVMTerminated)
}

// fewerVCPUs requests fewer vCPUs. The node's QEMU may unplug none without KVM: then the resize
// fails, and the pod reports the actual number.
func (f fixture) fewerVCPUs(t *testing.T, v *vm, n int) {
	t.Helper()
	out, err := f.agent.CLI(t.Context(), "resize", v.pod.Namespace+"/"+v.pod.Name, "--wait",
		"--vcpus="+strconv.Itoa(n))
	t.Logf("%s\n%v", out, err)
	r := f.lastReport(t, v)
	has := f.vcpus(t, v, v.domain())
	switch {
	case r.Actual == nil:
		t.Errorf("the pod reports %+v", r)
	case err == nil && (r.State != podapi.StateDone || r.Actual.VCPUs != n ||
		has != strconv.Itoa(n)):
		t.Errorf("done, libvirt has %s vCPUs, and the pod reports %+v", has, r)
	case err != nil && (r.State != podapi.StateFailed || r.Error == "" || has == strconv.Itoa(n)):
		t.Errorf("not done, libvirt has %s vCPUs, and the pod reports %+v", has, r)
	}
}

// requireLinuxGuest skips tests that boot a Linux guest, unless [allEnv] is set.
func requireLinuxGuest(t *testing.T) {
	t.Helper()
	if os.Getenv(allEnv) == "" {
		t.Skip("a Linux guest takes minutes to boot on an emulated node: runs with " + allEnv)
	}
}

// slowGuest returns flags of mooring-shim for an emulated guest on an emulated node.
func slowGuest() []string {
	return []string{"--grow-timeout=5m", "--shrink-timeout=10m", "--vcpu-timeout=3m"}
}

// pushGuest copies kernel and initramfs to the node.
func (f fixture) pushGuest(t *testing.T) {
	t.Helper()
	kernel, err := guest.Kernel()
	if err != nil {
		t.Fatal(err)
	}
	g, err := guest.Make(t.Context(), kernel, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f.output(t, "mkdir", "-p", guestDir)
	for from, to := range map[string]string{g.Kernel: "vmlinuz", g.Initramfs: "initramfs"} {
		if err := f.Push(t.Context(), from, guestDir+"/"+to, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// shimBinary is the path of mooring-shim on the node.
const shimBinary = "/opt/suite/mooring-shim"

// pushShim builds mooring-shim and copies it to the node. There it loads the node's libvirt.
func (f fixture) pushShim(t *testing.T) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "mooring-shim")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../cmd/mooring-shim")
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building mooring-shim: %v\n%s", err, out)
	}
	if err := f.Push(t.Context(), binary, shimBinary, 0o755); err != nil {
		t.Fatal(err)
	}
}

// startLinux starts a VM of the node's libvirt, with a Linux guest and headroom.
func (f fixture) startLinux(t *testing.T, v *vm) {
	t.Helper()
	v.console = guestDir + "/" + v.domain() + "/console"
	xml := strings.Replace(fmt.Sprintf(linuxXML, v.domain()), "path='"+v.domain()+"'",
		"path='"+v.console+"'", 1)
	f.startPrepared(t, v, xml, "--memory-capacity=1024", "--cpu-capacity=4")
	f.awaitConsole(t, v, "cpus=0 ")
}

// startPrepared starts a VM of the node's libvirt, with headroom.
func (f fixture) startPrepared(t *testing.T, v *vm, xml string, flags ...string) {
	t.Helper()
	dir := guestDir + "/" + v.domain()
	f.output(t, "mkdir", "-p", "-m", "0777", dir)
	if err := f.PushFrom(t.Context(), strings.NewReader(xml), dir+"/plain.xml", 0o644); err != nil {
		t.Fatal(err)
	}
	const start = `cd "$1" && shift && mooring domain prepare "$@" plain.xml >vm.xml && virsh -q ` +
		`create vm.xml`
	f.output(t, append([]string{"sh", "-c", start, "sh", dir}, flags...)...)
	if err := f.findDomainProcess(t.Context(), v); err != nil {
		t.Fatal(err)
	}
}

// awaitConsole waits until the guest has printed text on its console.
func (f fixture) awaitConsole(t *testing.T, v *vm, text string) {
	t.Helper()
	console := func() string { return f.output(t, "sh", "-c", "cat "+v.console+"; true") }
	within(t, 8*waitTimeout, "the guest to print "+text,
		func() bool { return strings.Contains(console(), text) }, console)
}

// runShim runs mooring-shim on the node, for a VM of the node's libvirt.
func (f fixture) runShim(t *testing.T, v *vm, flags ...string) {
	t.Helper()
	dir := guestDir + "/" + v.domain()
	f.nodeProcess(t, fmt.Sprintf("mkdir -p %[1]s/journal; exec %[2]s run --journal=%[1]s/journal "+
		"--domain=%[3]s --agent=%[4]s/agent.sock "+
		"--stop-file=%[4]s/pod/stop --overhead=128Mi %[5]s", dir, shimBinary, v.domain(),
		podDir(v.pod), strings.Join(flags, " ")))
}

// resize requests another size as a user of a node without Kubernetes does.
func (f fixture) resize(t *testing.T, v *vm, flags ...string) {
	t.Helper()
	args := append([]string{"resize", v.pod.Namespace + "/" + v.pod.Name, "--wait"}, flags...)
	out, err := f.agent.CLI(t.Context(), args...)
	t.Logf("mooring %s\n%s", strings.Join(args, " "), out)
	if err != nil {
		t.Fatal(err)
	}
}

// resizeAndCheck requests another size, and checks the VM's size in vCPUs and MiB.
func (f fixture) resizeAndCheck(t *testing.T, v *vm, vcpus int, mem uint64,
	flags ...string) podapi.Report {
	t.Helper()
	f.resize(t, v, flags...)
	r := f.lastReport(t, v)
	if r.State != podapi.StateDone || r.Actual == nil || r.Actual.VCPUs != vcpus ||
		r.Actual.Memory != mem<<20 {
		t.Fatalf("the pod reports %+v, want %d vCPUs and %d MiB", r, vcpus, mem)
	}
	return r
}

// lastReport returns the pod's report about its last resize.
func (f fixture) lastReport(t *testing.T, v *vm) podapi.Report {
	t.Helper()
	var r podapi.Report
	if err := json.Unmarshal([]byte(f.output(t, "cat", podDir(v.pod)+"/resize.json")),
		&r); err != nil {
		t.Fatal(err)
	}
	return r
}
