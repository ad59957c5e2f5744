package tie

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// advanceStops starts each due stop, and advances each stop at the end of its stage.
func (t *Tie) advanceStops(s *step) {
	if t.lacksProof() {
		return
	}
	for i := range t.VMs {
		v := &t.VMs[i]
		if !t.Terms.Enforce && v.Stage != StageNone {
			v.cancelStop(s)
		}
		switch {
		case v.Stage == StageNone:
			t.decideStop(v, s)
		case s.now >= v.Due:
			t.nextStage(v, s)
		case v.AskAgain != 0 && s.now >= v.AskAgain:
			v.askLibvirt(true, s)
		case t.dependsOnStopHandler(v) && !t.expectsStopHandler(s.now):
			t.continueWithoutPod(v, s)
		}
	}
}

// cancelStop ends a stop in progress after the policy has switched to observe mode.
func (v *VM) cancelStop(s *step) {
	v.Stage, v.Due, v.PodAsked = StageNone, 0, false
	v.AskAgain, v.Asks, v.AskFailed, v.AskFinal = 0, 0, 0, 0
	v.State, v.Since = agentapi.VMRunning, s.now
	v.Why = "the policy has changed to observe mode"
}

// decideStop starts the stop of a VM process if it is due and no lease holds it back.
func (t *Tie) decideStop(v *VM, s *step) {
	var why string
	switch {
	case t.Phase == agentapi.PhaseDraining:
		why = t.Why
	case t.Terms.StopUnattended:
		why = v.Unattended
	}
	switch {
	case why == "":
	case t.leaseHolds(s.now):
		t.holdBack(s)
	default:
		t.startStop(v, why, s)
	}
}

// leastGrace is the time for the guest to shut down, however long a lease of its pod has held back
// the stop. A shorter grace period still applies.
const leastGrace = 3 * time.Minute

// holdBack records a stop held back by a lease.
func (t *Tie) holdBack(s *step) {
	t.leaseReported = true
	if t.LauncherGone == "" {
		return
	}
	if t.HeldSince == 0 {
		t.HeldSince = s.now
	}
	t.HeldSince = max(t.HeldSince, t.Lease.Until)
}

// gracePeriod returns the time for the guest to shut down. The time under the pod's own lease after
// the launcher's end is a part of the grace period, so the pod cannot add both.
func (t *Tie) gracePeriod(now host.Boottime) time.Duration {
	whole := t.Terms.GracePeriod
	if t.HeldSince == 0 {
		return whole
	}
	held := max(now.Sub(t.HeldSince), 0)
	return max(whole-held, min(whole, leastGrace))
}

// startStop starts the stop of a VM process. A graceful shutdown comes first: by the pod if it has
// a stop handler, else by libvirt for a node-level VM. After its own stop request, a pod with a
// live launcher shuts its guest down without a request.
func (t *Tie) startStop(v *VM, why string, s *step) {
	if !t.Terms.Enforce {
		t.reportWouldStop(v, why, s)
		return
	}
	v.Why = why
	switch {
	case v.Domain == nil && t.StopRequested && t.LauncherGone == "":
		v.setStage(StageShutdown, t.gracePeriod(s.now), s)
	case t.canAskPod(v, s.now):
		t.shutdownByPod(v, s)
	case v.Domain != nil:
		v.setStage(StageShutdown, t.gracePeriod(s.now), s)
		t.shutdownByLibvirt(v, s)
	default:
		t.nextStage(v, s)
	}
}

// reportWouldStop reports once per reason which stop enforce mode would start.
func (t *Tie) reportWouldStop(v *VM, why string, s *step) {
	if v.Why == why {
		return
	}
	v.Why = why
	s.warn(agentapi.ReasonWouldStop, v.PID, policy.Observing+"would stop %s: %s", v.Describe(), why)
}

func (t *Tie) shutdownByLibvirt(v *VM, s *step) {
	s.note(agentapi.ReasonVMShutdown, v.PID,
		"the agent asks libvirt to shut down the guest of %s: %s", v.Describe(), v.Why)
	v.askLibvirt(false, s)
}

func (v *VM) askLibvirt(again bool, s *step) {
	v.AskAgain = s.now.Add(askAgainPeriod)
	if again {
		v.Asks = max(v.Asks, 1) // an earlier version of the agent has not counted the first
	}
	v.Asks++
	s.act(ShutdownByLibvirt{VM: *v, Again: again})
}

// shutdownFailed handles a failed request to libvirt. The next one follows in time, unless libvirt
// has no such domain or has failed too often. After a successful request the guest has its whole
// grace period, and failures do not count. Failures may arrive in any order, so a failure counts
// once all earlier requests have failed.
func (t *Tie) shutdownFailed(a ShutdownByLibvirt, failed ActionFailed, s *step) {
	v, n := t.VM(a.VM.Process), a.VM.Asks
	if v == nil || n < 1 || n > min(v.Asks, maxAskFails) {
		return // another stage has no requests
	}
	counted, bit := v.askFails(), uint8(1)<<(n-1)
	v.AskFailed |= bit
	if failed.Final {
		v.AskFinal |= bit
	}
	fails := v.askFails()
	if fails == counted {
		return
	}
	s.warn(agentapi.ReasonVMShutdown, v.PID,
		"libvirt cannot shut down the guest of %s: %v", v.Describe(), failed.Err)
	if useless := v.AskFinal & (1<<fails - 1); useless != 0 || fails == maxAskFails {
		v.Due = min(v.Due, s.now)
	}
}

// askFails returns the number of failed requests to libvirt before the first one without a failure.
func (v *VM) askFails() int { return bits.TrailingZeros8(^v.AskFailed) }

// nextStage enters the next stage with a signal. StageKill repeats its signal.
func (t *Tie) nextStage(v *VM, s *step) {
	switch v.Stage {
	case StageNone, StageShutdown:
		v.setStage(StageTerm, t.Terms.TermPeriod, s)
		s.note(agentapi.ReasonVMTerminated, v.PID, "SIGTERM to %s: %s", v.Describe(), v.Why)
		s.act(Terminate{*v})
	case StageTerm:
		v.setStage(StageKill, killRetryPeriod, s)
		s.warn(agentapi.ReasonVMKilled, v.PID,
			"SIGKILL to %s, %s after SIGTERM: %s", v.Describe(), t.Terms.TermPeriod, v.Why)
		s.act(Kill{*v})
	case StageKill:
		v.Due = s.now.Add(killRetryPeriod)
		s.warn(agentapi.ReasonVMStuck, v.PID,
			"%s still runs after SIGKILL; it may wait for a device", v.Describe())
		s.act(Kill{*v})
	}
}

func (v *VM) setStage(stage Stage, period time.Duration, s *step) {
	v.Stage, v.Due, v.PodAsked = stage, s.now.Add(period), false
	v.AskAgain, v.Asks, v.AskFailed, v.AskFinal = 0, 0, 0, 0
	state := agentapi.VMStopping
	if stage == StageKill {
		state = agentapi.VMKilling
	}
	if v.State != state {
		v.State, v.Since = state, s.now
	}
}

// Describe returns the VM's name in Events.
func (v *VM) Describe() string {
	if v.Domain != nil {
		return fmt.Sprintf("the VM of domain %s (%s)", v.Domain.Name, v.Executable)
	}
	return fmt.Sprintf("the VM process (%s)", v.Executable)
}
