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

// TestStrangersAreNotTouched: what is called QEMU and is none, what runs QEMU and
// belongs to nobody, and what is in a pod without a launcher. A launcher's abnormal
// exit is what makes the agent kill; it must not reach them.
func TestStrangersAreNotTouched(t *testing.T) {
	f := setUpVMs(t)
	strangers := map[string]process{
		"called QEMU":              f.nodeProcess(t, "exec -a qemu-system-x86_64 sleep 2147483647"),
		"QEMU's name in arguments": f.nodeProcess(t, "exec -a sh sh -c 'sleep 2147483647; :' /usr/bin/qemu-system-x86_64 -name guest=vm"),
		"QEMU of the node":         f.nodeProcess(t, "exec qemu-system-x86_64 "+qemuFlags),
	}
	for name, start := range map[string]string{"QEMU of a plain pod": asChild, "daemon of a plain pod": asDaemon} {
		v := f.runVM(t, placements()[2], want{pod: stranger, start: start})
		strangers[name] = v.process
	}
	gone := f.runVMs(t, placements()[1:3], want{owner: careless, start: asDaemon})
	for _, v := range gone {
		f.awaitVM(t, v, agentapi.VMRunning)
		f.moveElsewhere(t, v)
	}
	each(t, gone, func(ctx context.Context, v *vm) error { return f.signal(ctx, "KILL", v.owner) })
	for _, v := range gone {
		f.awaitEnd(t, v.process)
	}
	if err := f.agent.Restart(t.Context()); err != nil { // which looks at everything anew
		t.Fatal(err)
	}
	for name, p := range strangers {
		if !f.lives(t, p) {
			t.Errorf("%s: process %s has ended", name, p)
		}
	}
}

const qemuFlags = "-machine q35,accel=tcg -m 64 -nodefaults -no-user-config -display none -S"

// nodeProcess runs a line of bash on the node, outside of all pods, until the test
// ends.
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
		pid, err = strconv.Atoi(f.output(t, "systemctl", "show", "--property=MainPID", "--value", unit))
		return err == nil && pid != 0 && f.output(t, "cat", "/proc/"+itoa(pid)+"/comm") != "bash"
	}, func() string { return itoa(pid) })
	p, err := f.processOf(t.Context(), pid)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCapabilityProbe: libvirt runs QEMU without a VM to learn what it can. That is
// no VM, even in a launcher without a heartbeat.
func TestCapabilityProbe(t *testing.T) {
	f := setUpVMsWith(t, "  unattended: stop\n")
	v := f.runLaunchers(t, placements()[2:3], want{annotations: map[string]string{api.WatchdogKey: "5s"}})[0]
	const probe = `printf '{"execute":"qmp_capabilities"}\n{"execute":"query-version"}\n{"execute":"quit"}\n' |
		busybox chroot /node qemu-system-x86_64 -S -no-user-config -nodefaults -nographic -machine none,accel=tcg -qmp stdio`
	said, err := v.launcher.Exec(t.Context(), "sh", "-c", probe)
	if err != nil || !strings.Contains(said, `"package"`) {
		t.Fatalf("the probe ended with %v: %s", err, said)
	}
	f.neverTold(t, v.pod, agentapi.ReasonVMUnattended)
}

// neverTold looks through what the agent has told of a pod until now.
func (f fixture) neverTold(t *testing.T, p cri.Pod, never ...agentapi.Reason) {
	t.Helper()
	text := f.output(t, "sh", "-c", "timeout 5 mooring watch -o json; true") // it would go on for ever
	for in := json.NewDecoder(strings.NewReader(text)); ; {
		var e agentapi.Event
		err := in.Decode(&e)
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			t.Fatal(err)
		case e.Pod.UID == p.UID && slices.Contains(never, e.Reason):
			t.Errorf("the agent told %s: %s", e.Reason, e.Message)
		}
	}
}
