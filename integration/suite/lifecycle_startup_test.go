package suite

import (
	"context"
	"fmt"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// Launcher, heartbeat and VM start in this order. The agent identifies the VM process by pid and
// start time.
func TestCoreStartup(t *testing.T) {
	claim(t, "The agent recognises VM processes, of the pod and of the node's libvirt")
	underFaults(t, func(t *testing.T, f fixture, x fault) {
		vms := f.runLaunchers(t, placements(),
			vmOptions{annotations: map[string]string{api.WatchdogKey: "10m"}})
		for _, v := range vms {
			f.awaitPhase(t, v, agentapi.PhaseRegistered)
		}
		end := x.prepare(t, f)
		defer end()
		each(t, vms, func(ctx context.Context, v *vm) error {
			return f.sendLine(ctx, v, "touch /run/mooring/pod/heartbeat")
		})
		done := inBackground(t, vms, func(ctx context.Context, v *vm) error {
			return f.start(ctx, v, asChild)
		})
		x.inject(t, f)
		done()
		end()
		for _, v := range vms {
			t.Run(v.name, func(t *testing.T) {
				f.awaitVM(t, v, agentapi.VMRunning)
				f.awaitPhase(t, v, agentapi.PhaseActive)
				if h := f.inspect(t, v.pod).Heartbeat; h == nil || h.Age == nil || h.Expired {
					t.Errorf("heartbeat %+v, want a fresh one", h)
				}
				if !x.losesEvents {
					f.awaitEvent(t, v.pod, agentapi.ReasonVMStarted)
					f.neverReported(t, v.pod, agentapi.ReasonVMUnattended)
				}
			})
		}
	}, noFault, agentKilled)
}

// The launcher declares a heartbeat, and its VM starts without one. The agent reports the VM.
// With the policy `unattended: stop` it also stops the VM.
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
			for _, v := range f.startUnattended(t, test.stopped) {
				t.Run(v.name, func(t *testing.T) {
					f.awaitEvent(t, v.pod, agentapi.ReasonVMUnattended)
					if test.stopped {
						f.awaitEvent(t, v.pod, agentapi.ReasonVMGone)
						return
					}
					f.awaitVM(t, v, agentapi.VMRunning)
					if !f.isAlive(t, v.vmProcess) {
						t.Error("the VM was stopped")
					}
				})
			}
		})
	}
}

// startUnattended starts VMs without a heartbeat. If the agent stops them at once, it does not
// wait for their processes.
func (f fixture) startUnattended(t *testing.T, stopped bool) []*vm {
	t.Helper()
	w := vmOptions{annotations: map[string]string{api.WatchdogKey: "5s"}}
	if !stopped {
		return f.runAllPlacements(t, w)
	}
	vms := f.runLaunchers(t, placements()[:3], w)
	each(t, vms, func(ctx context.Context, v *vm) error { return f.sendLine(ctx, v, asChild) })
	return vms
}

// awaitVM waits until the agent shows a VM process in this state.
func (f fixture) awaitVM(t *testing.T, v *vm, state agentapi.VMState) agentapi.VM {
	t.Helper()
	var last agentapi.Launcher
	var found agentapi.VM
	eventually(t, fmt.Sprintf("process %s to be %s", v.vmProcess, state), func() bool {
		last = f.inspect(t, v.pod)
		for _, known := range last.VMs {
			if known.PID == v.vmProcess.pid && known.StartTime == v.vmProcess.start {
				found = known
			}
		}
		return found.State == state
	}, func() string { return fmt.Sprintf("%s %s, %+v", last.Phase, last.Why, last.VMs) })
	return found
}

// awaitPhase waits until the agent shows a launcher in this phase.
func (f fixture) awaitPhase(t *testing.T, v *vm, phase agentapi.Phase) {
	t.Helper()
	var last agentapi.Launcher
	eventually(t, fmt.Sprintf("the launcher of pod %s to be %s", v.pod.Name, phase), func() bool {
		last = f.inspect(t, v.pod)
		return last.Phase == phase
	}, func() string { return fmt.Sprintf("%s %s, %+v", last.Phase, last.Why, last.VMs) })
}
