package suite

import (
	"context"
	"fmt"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// TestCoreStartup: launcher, heartbeat, VM, in this order; the agent knows the VM for
// what it is, by pid and start time.
func TestCoreStartup(t *testing.T) {
	claim(t, "The agent recognises VM processes, of the pod and of the node's libvirt")
	underFaults(t, func(t *testing.T, f fixture, x fault) {
		vms := f.runLaunchers(t, placements(), want{annotations: map[string]string{api.WatchdogKey: "10m"}})
		for _, v := range vms {
			f.awaitPhase(t, v, agentapi.PhaseRegistered)
		}
		end := x.begin(t, f)
		defer end()
		each(t, vms, func(ctx context.Context, v *vm) error { return f.tell(ctx, v, "touch /run/mooring/pod/heartbeat") })
		done := inBackground(t, vms, func(ctx context.Context, v *vm) error { return f.start(ctx, v, asChild) })
		x.strike(t, f)
		done()
		end()
		for _, v := range vms {
			t.Run(v.name, func(t *testing.T) {
				f.awaitVM(t, v, agentapi.VMRunning)
				f.awaitPhase(t, v, agentapi.PhaseActive)
				if h := f.inspect(t, v.pod).Heartbeat; h == nil || h.Age == nil || h.Expired {
					t.Errorf("the heartbeat is %+v, want one that lives", h)
				}
				if !x.forgets {
					f.awaitEvent(t, v.pod, agentapi.ReasonVMStarted)
					f.neverTold(t, v.pod, agentapi.ReasonVMUnattended)
				}
			})
		}
	}, noFault, agentKilled)
}

// TestUnattendedStart: a VM that starts without the heartbeat that its launcher
// asks for is reported, and stopped where the policy says so.
func TestUnattendedStart(t *testing.T) {
	for name, test := range map[string]struct {
		policy  string
		stopped bool
	}{
		"reported": {"", false},
		"stopped":  {"  unattended: stop\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := setUpVMsWith(t, test.policy)
			for _, v := range f.unattended(t, test.stopped) {
				t.Run(v.name, func(t *testing.T) {
					f.awaitEvent(t, v.pod, agentapi.ReasonVMUnattended)
					if test.stopped {
						f.awaitEvent(t, v.pod, agentapi.ReasonVMGone)
						return
					}
					f.awaitVM(t, v, agentapi.VMRunning)
					if !f.lives(t, v.process) {
						t.Error("the VM was stopped")
					}
				})
			}
		})
	}
}

// unattended starts VMs without heartbeat. Those that are stopped at once are not
// waited for.
func (f fixture) unattended(t *testing.T, stopped bool) []*vm {
	t.Helper()
	w := want{annotations: map[string]string{api.WatchdogKey: "5s"}}
	if !stopped {
		return f.fleet(t, w)
	}
	vms := f.runLaunchers(t, placements()[:3], w)
	each(t, vms, func(ctx context.Context, v *vm) error { return f.tell(ctx, v, asChild) })
	return vms
}

// awaitVM waits until the agent says of a VM's process what state it is in.
func (f fixture) awaitVM(t *testing.T, v *vm, state agentapi.VMState) agentapi.VM {
	t.Helper()
	var last agentapi.Launcher
	var found agentapi.VM
	eventually(t, fmt.Sprintf("process %s to be %s", v.process, state), func() bool {
		last = f.inspect(t, v.pod)
		for _, known := range last.VMs {
			if known.PID == v.process.pid && known.StartTime == v.process.start {
				found = known
			}
		}
		return found.State == state
	}, func() string { return fmt.Sprintf("%s %s, %+v", last.Phase, last.Why, last.VMs) })
	return found
}

// awaitPhase waits until the agent says of a launcher what phase it is in.
func (f fixture) awaitPhase(t *testing.T, v *vm, phase agentapi.Phase) {
	t.Helper()
	var last agentapi.Launcher
	eventually(t, fmt.Sprintf("the launcher of pod %s to be %s", v.pod.Name, phase), func() bool {
		last = f.inspect(t, v.pod)
		return last.Phase == phase
	}, func() string { return fmt.Sprintf("%s %s, %+v", last.Phase, last.Why, last.VMs) })
}
