package suite

import (
	"context"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// abnormalEnd is a way for a launcher to end without a stop request to its pod.
type abnormalEnd struct {
	name string
	do   func(context.Context, fixture, *vm) error
	more bool // runs only with [allEnv]
}

func abnormalEnds() []abnormalEnd {
	return []abnormalEnd{
		{"launcher killed", func(ctx context.Context, f fixture, v *vm) error {
			return f.signal(ctx, "KILL", v.launcherProcess)
		}, false},
		{"launcher exits", func(ctx context.Context, f fixture, v *vm) error {
			return f.sendLine(ctx, v, "sleep 1; exit 1")
		}, true},
		{"container removed by force", func(ctx context.Context, _ fixture, v *vm) error {
			return v.launcher.Remove(ctx)
		}, true},
		{"pod removed by force", func(ctx context.Context, _ fixture, v *vm) error {
			return v.launcher.Sandbox.RemoveByForce(ctx)
		}, true},
	}
}

// runEscapedVMs runs VMs of all placements, and VMs in other cgroups than their launcher's. The
// runtime does not find the latter.
func (f fixture) runEscapedVMs(t *testing.T) []*vm {
	t.Helper()
	vms := f.runAllPlacements(t, vmOptions{script: careless})
	below := f.runVM(t, placements()[2], vmOptions{script: careless})
	below.name += ", in a cgroup below"
	f.moveBelow(t, below)
	elsewhere := f.runVMs(t, placements()[1:3], vmOptions{script: careless, start: asDaemon})
	for _, v := range elsewhere {
		v.name += ", daemon elsewhere"
		f.moveElsewhere(t, v)
	}
	vms = append(append(vms, below), elsewhere...)
	for _, v := range vms {
		f.awaitVM(t, v, agentapi.VMRunning)
	}
	return vms
}

// outlivesContainer reports whether the VM survives the end of its container, so that the agent
// must stop it.
func (v *vm) outlivesContainer() bool { return v.libvirt || v.name != v.placement.name }

func TestCoreAbnormalExit(t *testing.T) {
	claim(t, "A VM ends with its launcher, however that ends")
	f := setUpVMs(t)
	for _, e := range abnormalEnds() {
		if isSelected(t, e.name, !e.more) {
			t.Run(e.name, func(t *testing.T) { abnormalExit(t, f, fault{}, e) })
		}
	}
}

func TestAbnormalExitUnderFaults(t *testing.T) {
	underFaults(t, func(t *testing.T, f fixture, x fault) {
		abnormalExit(t, f, x, abnormalEnds()[0])
	},
		agentAway)
}

func abnormalExit(t *testing.T, f fixture, x fault, e abnormalEnd) {
	t.Helper()
	vms := f.runEscapedVMs(t)
	end := x.prepare(t, f)
	defer end()
	each(t, vms, func(ctx context.Context, v *vm) error { return e.do(ctx, f, v) })
	x.inject(t, f)
	end()
	for _, v := range vms {
		t.Run(v.name, func(t *testing.T) {
			f.awaitEnd(t, v.launcherProcess)
			f.awaitEnd(t, v.vmProcess)
			if !x.losesEvents && v.outlivesContainer() {
				f.awaitEvent(t, v.pod, agentapi.ReasonOwnerGone)
				f.awaitEvent(t, v.pod, agentapi.ReasonVMGone)
			}
		})
	}
}

// Only the agent notices the end of the launchers.
func TestAbnormalExitWithoutContainerd(t *testing.T) {
	f := setUpVMs(t)
	vms := f.runEscapedVMs(t)
	defer f.withoutContainerd(t)()
	each(t, vms, func(ctx context.Context, v *vm) error {
		return f.signal(ctx, "KILL", v.launcherProcess)
	})
	for _, v := range vms {
		t.Run(v.name, func(t *testing.T) { f.awaitEnd(t, v.vmProcess) })
	}
}

// Agent and containerd are away. The fence stops VMs of dead launchers. VMs of living launchers
// keep running.
func TestFence(t *testing.T) {
	f := setUpVMs(t)
	vms, living := f.runEscapedVMs(t), f.runAllPlacements(t, vmOptions{})
	for _, v := range living {
		f.awaitVM(t, v, agentapi.VMRunning)
	}
	defer f.killAgent(t)()
	defer f.withoutContainerd(t)()
	each(t, vms, func(ctx context.Context, v *vm) error {
		return f.signal(ctx, "KILL", v.launcherProcess)
	})
	for _, v := range vms {
		t.Run(v.name, func(t *testing.T) { f.awaitEnd(t, v.vmProcess) })
	}
	for _, v := range living {
		t.Run(v.name+", launcher alive", func(t *testing.T) { f.checkBothAlive(t, v) })
	}
}

// withoutContainerd kills containerd. The returned function starts it again.
func (f fixture) withoutContainerd(t *testing.T) (start func()) {
	t.Helper()
	f.output(t, "sh", "-c",
		"systemctl kill --signal=KILL containerd.service; systemctl stop containerd.service")
	return func() {
		t.Helper()
		f.output(t, "systemctl", "start", "containerd.service")
	}
}

func (f fixture) checkBothAlive(t *testing.T, v *vm) {
	t.Helper()
	if !f.isAlive(t, v.launcherProcess) || !f.isAlive(t, v.vmProcess) {
		t.Errorf("launcher alive: %v, VM alive: %v, want both", f.isAlive(t, v.launcherProcess),
			f.isAlive(t, v.vmProcess))
	}
}

// After the end and after the restart of libvirtd, the VM still runs and is bound to its pod.
func TestKilledLibvirtd(t *testing.T) {
	f := setUpVMs(t)
	v := f.runVM(t, placements()[3], vmOptions{script: careless})
	before := f.awaitVM(t, v, agentapi.VMRunning)
	f.output(t, "systemctl", "kill", "--signal=KILL", "libvirtd.service")
	f.checkBothAlive(t, v)
	f.output(t, "virsh", "list") // starts libvirtd
	after := f.awaitVM(t, v, agentapi.VMRunning)
	if moved := after.Since.Sub(before.Since).Abs(); moved > time.Second {
		t.Errorf("the VM runs since %v, want %v as before", after.Since, before.Since)
	}
	// Since is computed from two clocks, so slightly different each time. Usage points to samples.
	after.Since = before.Since
	before.Usage, after.Usage = nil, nil
	if after != before {
		t.Errorf("VM %+v, want %+v as before", after, before)
	}
	if got := before.Domain; got != v.domain() {
		t.Errorf("the VM is the domain %q, want %q", got, v.domain())
	}
	each(t, []*vm{v}, func(ctx context.Context, v *vm) error {
		return f.signal(ctx, "KILL", v.launcherProcess)
	})
	f.awaitEnd(t, v.vmProcess)
}
