package supervisor_test

import (
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// The runtime has removed the container, and its VM process runs on.
func TestOrphanIsShown(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.kernel.Ignores = func(_ int, signal string) bool { return signal == "TERM" }
		r.startQEMU("/machine/" + l.Container.ID) // in another cgroup named after the container
		moved := r.startProcess("/elsewhere")     // a descendant in an unrelated cgroup
		if err := r.tracker.Bind(moved, r.group(l)); err != nil {
			t.Fatal(err)
		}
		r.ProcessEvent(r.tracker.Exec(moved, "qemu-kvm"))
		r.advance(0)
		r.expectPhase(l, agentapi.PhaseActive, agentapi.VMRunning)
		r.exit(l.process, "SIGKILL")
		r.config.Registry.RemoveContainer(l.Container.ID)
		r.config.Registry.RemoveSandbox(l.SandboxID)
		r.expectPhase(l, agentapi.PhaseDraining, agentapi.VMStopping)
		if !r.HasPod(l.Pod.UID) || !r.config.Registry.HasPod(l.Pod.UID) {
			t.Error("the pod was dropped while its VM runs")
		}
		r.advance(termPeriod)
		if _, ok := r.config.Registry.Find(l.Container.ID); ok || r.HasPod(l.Pod.UID) {
			t.Error("the launcher is kept after the end of its VM")
		}
	})
}

// The runtime no longer lists the container.
func TestOrphanIsShownAfterARestart(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.kernel.Ignores = func(int, string) bool { return true }
		r.startQEMU(l.cgroup)
		r.stop()
		r.kernel.Exit(l.process.PID)
		r.config.Registry = registry.New()
		r.start()
		r.expectPhase(l, agentapi.PhaseDraining, agentapi.VMStopping)
		r.advance(termPeriod)
		r.expectPhase(l, agentapi.PhaseDraining, agentapi.VMKilling)
		r.advance(termPeriod)
		r.expectEvent(agentapi.ReasonVMStuck)
	})
}
