package suite

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

// The agent kills the VMs of dead launchers only. It spares processes with the name of QEMU,
// QEMU processes outside of pods, and QEMU processes in pods without a launcher.
func TestUnmanagedProcessesKeepRunning(t *testing.T) {
	f := setUpVMs(t)
	unmanaged := map[string]process{
		"called QEMU": f.nodeProcess(t, "exec -a qemu-system-x86_64 sleep 2147483647"),
		"QEMU's name in arguments": f.nodeProcess(t, "exec -a sh sh -c 'sleep 2147483647; :' "+
			"/usr/bin/qemu-system-x86_64 -name guest=vm"),
		"QEMU of the node": f.nodeProcess(t, "exec qemu-system-x86_64 "+qemuFlags),
	}
	for name, start := range map[string]string{"QEMU of a plain pod": asChild,
		"daemon of a plain pod": asDaemon} {
		v := f.runVM(t, placements()[2], vmOptions{pod: unmanagedPod, start: start})
		unmanaged[name] = v.vmProcess
	}
	gone := f.runVMs(t, placements()[1:3], vmOptions{script: careless, start: asDaemon})
	for _, v := range gone {
		f.awaitVM(t, v, agentapi.VMRunning)
		f.moveElsewhere(t, v)
	}
	each(t, gone, func(ctx context.Context, v *vm) error {
		return f.signal(ctx, "KILL", v.launcherProcess)
	})
	for _, v := range gone {
		f.awaitEnd(t, v.vmProcess)
	}
	if err := f.agent.Restart(t.Context()); err != nil { // a new agent scans all processes
		t.Fatal(err)
	}
	for name, p := range unmanaged {
		if !f.isAlive(t, p) {
			t.Errorf("%s: process %s has ended", name, p)
		}
	}
}

const qemuFlags = "-machine q35,accel=tcg -m 64 -nodefaults -no-user-config -display none -S"

// nodeProcess runs a line of bash on the node, outside of pods, until the test ends.
func (f fixture) nodeProcess(t *testing.T, line string) process {
	t.Helper()
	unit := "suite-" + uuid.NewString()[:8]
	f.output(t, "systemd-run", "--quiet", "--unit="+unit, "bash", "-c", line)
	t.Cleanup(func() {
		if _, err := f.Output(cleanUpContext(t), "systemctl", "stop", unit); err != nil {
			t.Error(err)
		}
	})
	var pid int
	eventually(t, "unit "+unit+" to run", func() bool {
		var err error
		pid, err = strconv.Atoi(f.output(t, "systemctl", "show", "--property=MainPID",
			"--value", unit))
		return err == nil && pid != 0 && f.output(t, "cat", "/proc/"+itoa(pid)+"/comm") != "bash"
	}, func() string { return itoa(pid) })
	p, err := f.processOf(t.Context(), pid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// libvirt runs QEMU without a VM to probe its capabilities. Even in a launcher without a
// heartbeat, such a process does not count as a VM.
func TestCapabilityProbe(t *testing.T) {
	f := setUpVMsWith(t, "  unattended: stop\n")
	v := f.runLaunchers(t, placements()[2:3],
		vmOptions{annotations: map[string]string{api.WatchdogKey: "5s"}})[0]
	const probe = `printf '{"execute":"qmp_capabilities"}\n{"execute":"query-version"}\n{"execute":"quit"}\n' |
		busybox chroot /node qemu-system-x86_64 -S -no-user-config -nodefaults -nographic -machine none,accel=tcg -qmp stdio`
	out, err := v.launcher.Exec(t.Context(), "sh", "-c", probe)
	if err != nil || !strings.Contains(out, `"package"`) {
		t.Fatalf("the probe ended with %v: %s", err, out)
	}
	f.neverReported(t, v.pod, agentapi.ReasonVMUnattended)
}

// neverReported checks that the agent has reported no such event about a pod until now.
func (f fixture) neverReported(t *testing.T, p cri.Pod, never ...agentapi.Reason) {
	t.Helper()
	// the command itself never ends
	text := f.output(t, "sh", "-c", "timeout 5 mooring watch -o json; true")
	for in := json.NewDecoder(strings.NewReader(text)); ; {
		var e agentapi.Event
		err := in.Decode(&e)
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			t.Fatal(err)
		case e.Pod.UID == p.UID && slices.Contains(never, e.Reason):
			t.Errorf("the agent reported %s: %s", e.Reason, e.Message)
		}
	}
}
