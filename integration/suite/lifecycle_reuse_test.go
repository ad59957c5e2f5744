package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

// twinBinary is integration/twin, with a name that the policy knows QEMU by: what is
// in a VM's place looks like one.
const twinBinary = "/opt/suite/qemu-system-x86_64"

// TestReusedPID: a VM dies, and a stranger of the node gets its process number while
// the launcher lives. What the launcher's end leads to is not for the stranger. An
// agent that was away finds a tie with a number that is somebody's.
func TestReusedPID(t *testing.T) {
	underFaults(t, reusedPID, noFault, agentAway)
}

func reusedPID(t *testing.T, f fixture, x fault) {
	t.Helper()
	f.pushProgram(t, "../twin", twinBinary)
	// A daemon of the node's pid namespace: its parent is the runtime's shim, which waits
	// for everybody. A launcher's shell would leave a zombie, and that has the number.
	vms := f.runVMs(t, placements()[2:3], want{owner: careless, start: asDaemon})
	for _, v := range vms {
		f.awaitVM(t, v, agentapi.VMRunning)
		f.output(t, "test", "-s", tieFile(v))
	}
	end := x.begin(t, f)
	defer end()
	each(t, vms, func(ctx context.Context, v *vm) error { return f.signal(ctx, "KILL", v.process) })
	strangers := map[*vm]process{}
	for _, v := range vms {
		strangers[v] = f.replace(t, v.process)
		if !x.away {
			f.awaitNoVM(t, v)
		}
	}
	x.strike(t, f)
	each(t, vms, func(ctx context.Context, v *vm) error { return f.signal(ctx, "KILL", v.owner) })
	for _, v := range vms {
		f.awaitEnd(t, v.owner)
		f.awaitExited(t, v.launcher)
	}
	end()
	for _, v := range vms {
		t.Run(v.name, func(t *testing.T) {
			f.awaitFreed(t, v)
			f.awaitNoVM(t, v)
		})
	}
	if err := f.agent.Restart(t.Context()); err != nil { // which looks at everything anew
		t.Fatal(err)
	}
	for v, stranger := range strangers {
		if !f.lives(t, stranger) {
			t.Errorf("%s: process %s in the VM's place has ended", v.name, stranger)
		}
		f.awaitNoVM(t, v)
	}
}

// replace runs a process of the node with the number of one that was killed, until the
// test ends.
func (f fixture) replace(t *testing.T, gone process) process {
	t.Helper()
	parent := f.nodeProcess(t, fmt.Sprintf("exec %s %d", twinBinary, gone.pid))
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
		t.Fatalf("process %s is in cgroup %s, and its parent in %s, %v", got, cgroup, own, err)
	}
	return got
}

// tieFile is where the agent stores what it knows of a launcher's VMs.
func tieFile(v *vm) string { return "/run/mooring/ties/" + v.launcher.ID + ".json" }

// awaitFreed waits until the agent is done with a launcher.
func (f fixture) awaitFreed(t *testing.T, v *vm) {
	t.Helper()
	eventually(t, "the tie of pod "+v.pod.Name+" to be freed", func() bool {
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

// shownVMs are the VM processes that `mooring ps` shows of a pod. A launcher that is
// forgotten has none.
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
