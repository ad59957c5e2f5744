package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

// reuseBinary is integration/pidreuse under the name of QEMU, so that its process looks like a VM
// process.
const reuseBinary = "/opt/suite/qemu-system-x86_64"

// A VM ends, and another process of the node gets its pid while the launcher lives. The end of
// the launcher must not end this process. A restarted agent finds a tie with the reused pid.
func TestReusedPID(t *testing.T) {
	underFaults(t, reusedPID, noFault, agentAway)
}

func reusedPID(t *testing.T, f fixture, x fault) {
	t.Helper()
	f.pushProgram(t, "../pidreuse", reuseBinary)
	// The VM is a daemon in the node's pid namespace: its parent is the runtime's shim, which
	// reaps it. A launcher's shell would leave a zombie, which keeps the pid.
	vms := f.runVMs(t, placements()[2:3], vmOptions{script: careless, start: asDaemon})
	for _, v := range vms {
		f.awaitVM(t, v, agentapi.VMRunning)
		f.output(t, "test", "-s", tieFile(v))
	}
	end := x.prepare(t, f)
	defer end()
	each(t, vms, func(ctx context.Context, v *vm) error {
		return f.signal(ctx, "KILL", v.vmProcess)
	})
	others := map[*vm]process{}
	for _, v := range vms {
		others[v] = f.reusePID(t, v.vmProcess)
		if !x.withoutAgent {
			f.awaitNoVM(t, v)
		}
	}
	x.inject(t, f)
	each(t, vms, func(ctx context.Context, v *vm) error {
		return f.signal(ctx, "KILL", v.launcherProcess)
	})
	for _, v := range vms {
		f.awaitEnd(t, v.launcherProcess)
		f.awaitExited(t, v.launcher)
	}
	end()
	for _, v := range vms {
		t.Run(v.name, func(t *testing.T) {
			f.awaitTieRemoved(t, v)
			f.awaitNoVM(t, v)
		})
	}
	if err := f.agent.Restart(t.Context()); err != nil { // a new agent scans all processes
		t.Fatal(err)
	}
	for v, other := range others {
		if !f.isAlive(t, other) {
			t.Errorf("%s: process %s with the VM's pid has ended", v.name, other)
		}
		f.awaitNoVM(t, v)
	}
}

// reusePID runs a process of the node with the pid of an ended process, until the test ends.
func (f fixture) reusePID(t *testing.T, gone process) process {
	t.Helper()
	parent := f.nodeProcess(t, fmt.Sprintf("exec %s %d", reuseBinary, gone.pid))
	var got process
	var err error
	eventually(t, fmt.Sprintf("another process %d, of process %s", gone.pid, parent), func() bool {
		got, err = f.processOf(t.Context(), gone.pid)
		return err == nil && got != gone
	}, func() string { return fmt.Sprintf("%s, %v; %s", got, err, f.describe(t, got)) })
	cgroup, err := f.cgroupOf(t.Context(), got)
	if err != nil {
		t.Fatal(err)
	}
	if own, err := f.cgroupOf(t.Context(), parent); err != nil || cgroup != own {
		t.Fatalf("process %s is in cgroup %s, its parent in %s, %v", got, cgroup, own, err)
	}
	return got
}

// tieFile returns the file with the stored tie of a launcher.
func tieFile(v *vm) string { return "/run/mooring/ties/" + v.launcher.ID + ".json" }

// awaitTieRemoved waits until the agent has removed the tie of a launcher.
func (f fixture) awaitTieRemoved(t *testing.T, v *vm) {
	t.Helper()
	eventually(t, "the tie of pod "+v.pod.Name+" to be removed", func() bool {
		left, err := f.Output(t.Context(), "find", "/run/mooring/ties", "-path", tieFile(v))
		return err == nil && left == ""
	}, func() string { return f.output(t, "sh", "-c", `cat "$1"; true`, "sh", tieFile(v)) })
}

// awaitNoVM waits until `mooring ps` shows no VM process of a launcher.
func (f fixture) awaitNoVM(t *testing.T, v *vm) {
	t.Helper()
	var last []agentapi.VM
	eventually(t, "mooring ps to show no VM of pod "+v.pod.Name, func() bool {
		last = f.shownVMs(t, v.pod)
		return len(last) == 0
	}, func() string { return fmt.Sprintf("%+v", last) })
}

// shownVMs returns the VM processes of a pod in the output of `mooring ps`. An unknown launcher
// has none.
func (f fixture) shownVMs(t *testing.T, p cri.Pod) []agentapi.VM {
	t.Helper()
	text, err := f.agent.CLI(t.Context(), "ps", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var all []agentapi.Launcher
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("mooring ps: %v: %s", err, text)
	}
	var vms []agentapi.VM
	for _, l := range all {
		if l.Pod.UID == p.UID {
			vms = append(vms, l.VMs...)
		}
	}
	return vms
}
