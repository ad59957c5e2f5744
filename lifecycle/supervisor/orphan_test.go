package supervisor_test

import (
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// TestWhatIsLeftIsShown: the runtime has removed the container, and its VM does not
// end at once.
func TestWhatIsLeftIsShown(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.kernel.Ignores = func(_ int, signal string) bool { return signal == "TERM" }
		r.qemu("/machine/" + l.Container.ID) // not below the container's cgroup,
		moved := r.process("/elsewhere")     // but of its descent
		if err := r.tracker.Bind(moved, r.group(l)); err != nil {
			t.Fatal(err)
		}
		r.ProcessEvent(r.tracker.Exec(moved, "qemu-kvm"))
		r.after(0)
		r.is(l, agentapi.PhaseActive, agentapi.VMRunning)
		r.exit(l.owner, "SIGKILL")
		r.config.Registry.RemoveContainer(l.Container.ID)
		r.config.Registry.RemoveSandbox(l.SandboxID)
		r.is(l, agentapi.PhaseDraining, agentapi.VMStopping)
		if !r.HasPod(l.Pod.UID) || !r.config.Registry.HasPod(l.Pod.UID) {
			t.Error("the pod is forgotten while its VM runs")
		}
		r.after(term)
		if _, ok := r.config.Registry.Find(l.Container.ID); ok || r.HasPod(l.Pod.UID) {
			t.Error("the launcher is not forgotten after its VM is gone")
		}
	})
}

// TestWhatIsLeftIsShownAfterARestart: the runtime lists the container no more.
func TestWhatIsLeftIsShownAfterARestart(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.kernel.Ignores = func(int, string) bool { return true }
		r.qemu(l.cgroup)
		r.stop()
		r.kernel.Exit(l.owner.PID)
		r.config.Registry = registry.New()
		r.start()
		r.is(l, agentapi.PhaseDraining, agentapi.VMStopping)
		r.after(term)
		r.is(l, agentapi.PhaseDraining, agentapi.VMKilling)
		r.after(term)
		r.told(agentapi.ReasonVMStuck)
	})
}
