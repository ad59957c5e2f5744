package suite

import (
	"context"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// ending is a way for a launcher to end without its pod being asked.
type ending struct {
	name string
	do   func(context.Context, fixture, *vm) error
	more bool // only with [allEnv]
}

func endings() []ending {
	return []ending{
		{"owner killed", func(ctx context.Context, f fixture, v *vm) error { return f.signal(ctx, "KILL", v.owner) }, false},
		{"owner left", func(ctx context.Context, f fixture, v *vm) error { return f.tell(ctx, v, "sleep 1; exit 1") }, true},
		{"container removed by force", func(ctx context.Context, _ fixture, v *vm) error { return v.launcher.Remove(ctx) }, true},
		{"pod removed by force", func(ctx context.Context, _ fixture, v *vm) error { return v.launcher.Sandbox.RemoveByForce(ctx) }, true},
	}
}

// escaped are VMs of all placements, and those in other cgroups than their
// launcher's, which the runtime does not find.
func (f fixture) escaped(t *testing.T) []*vm {
	t.Helper()
	vms := f.fleet(t, want{owner: careless})
	below := f.runVM(t, placements()[2], want{owner: careless})
	below.name += ", in a cgroup below"
	f.moveBelow(t, below)
	elsewhere := f.runVMs(t, placements()[1:3], want{owner: careless, start: asDaemon})
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

// left reports whether the runtime leaves a VM behind, for the agent to stop.
func (v *vm) left() bool { return v.libvirt || v.name != v.placement.name }

// TestCoreAbnormalExit: however a launcher ends, its VM ends, too.
func TestCoreAbnormalExit(t *testing.T) {
	claim(t, "A VM ends with its launcher, however that ends")
	f := setUpVMs(t)
	for _, e := range endings() {
		if runs(t, e.name, !e.more) {
			t.Run(e.name, func(t *testing.T) { abnormalExit(t, f, fault{}, e) })
		}
	}
}

func TestAbnormalExitUnderFaults(t *testing.T) {
	underFaults(t, func(t *testing.T, f fixture, x fault) { abnormalExit(t, f, x, endings()[0]) }, agentAway)
}

func abnormalExit(t *testing.T, f fixture, x fault, e ending) {
	t.Helper()
	vms := f.escaped(t)
	end := x.begin(t, f)
	defer end()
	each(t, vms, func(ctx context.Context, v *vm) error { return e.do(ctx, f, v) })
	x.strike(t, f)
	end()
	for _, v := range vms {
		t.Run(v.name, func(t *testing.T) {
			f.awaitEnd(t, v.owner)
			f.awaitEnd(t, v.process)
			if !x.forgets && v.left() {
				f.awaitEvent(t, v.pod, agentapi.ReasonOwnerGone)
				f.awaitEvent(t, v.pod, agentapi.ReasonVMGone)
			}
		})
	}
}

// TestAbnormalExitWithoutContainerd: nobody but the agent is there to see it.
func TestAbnormalExitWithoutContainerd(t *testing.T) {
	f := setUpVMs(t)
	vms := f.escaped(t)
	defer f.withoutContainerd(t)()
	each(t, vms, func(ctx context.Context, v *vm) error { return f.signal(ctx, "KILL", v.owner) })
	for _, v := range vms {
		t.Run(v.name, func(t *testing.T) { f.awaitEnd(t, v.process) })
	}
}

// TestFence: agent and containerd are away. VMs whose owner is gone are stopped by
// the fence, those of living owners are left alone.
func TestFence(t *testing.T) {
	f := setUpVMs(t)
	vms, living := f.escaped(t), f.fleet(t, want{})
	for _, v := range living {
		f.awaitVM(t, v, agentapi.VMRunning)
	}
	defer f.killAgent(t)()
	defer f.withoutContainerd(t)()
	each(t, vms, func(ctx context.Context, v *vm) error { return f.signal(ctx, "KILL", v.owner) })
	for _, v := range vms {
		t.Run(v.name, func(t *testing.T) { f.awaitEnd(t, v.process) })
	}
	for _, v := range living {
		t.Run(v.name+", owner alive", func(t *testing.T) { f.bothLive(t, v) })
	}
}

// withoutContainerd kills containerd until the returned function is called.
func (f fixture) withoutContainerd(t *testing.T) (start func()) {
	t.Helper()
	f.output(t, "sh", "-c", "systemctl kill --signal=KILL containerd.service; systemctl stop containerd.service")
	return func() {
		t.Helper()
		f.output(t, "systemctl", "start", "containerd.service")
	}
}

func (f fixture) bothLive(t *testing.T, v *vm) {
	t.Helper()
	if !f.lives(t, v.owner) || !f.lives(t, v.process) {
		t.Errorf("owner lives: %v, VM lives: %v, want both", f.lives(t, v.owner), f.lives(t, v.process))
	}
}

// TestKilledLibvirtd leaves the VM running and bound, also when it is back.
func TestKilledLibvirtd(t *testing.T) {
	f := setUpVMs(t)
	v := f.runVM(t, placements()[3], want{owner: careless})
	before := f.awaitVM(t, v, agentapi.VMRunning)
	f.output(t, "systemctl", "kill", "--signal=KILL", "libvirtd.service")
	f.bothLive(t, v)
	f.output(t, "virsh", "list") // starts it
	after := f.awaitVM(t, v, agentapi.VMRunning)
	if moved := after.Since.Sub(before.Since).Abs(); moved > time.Second {
		t.Errorf("the VM runs since %v, and ran since %v", after.Since, before.Since)
	}
	after.Since = before.Since // is counted back from now, by two clocks
	if after != before {
		t.Errorf("the VM is %+v and was %+v", after, before)
	}
	if got := before.Domain; got != v.domain() {
		t.Errorf("the VM is the domain %q, want %q", got, v.domain())
	}
	each(t, []*vm{v}, func(ctx context.Context, v *vm) error { return f.signal(ctx, "KILL", v.owner) })
	f.awaitEnd(t, v.process)
}
