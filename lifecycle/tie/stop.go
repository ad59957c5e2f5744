package tie

import (
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// advanceStops brings every VM process that has to end one stage on, if it is time.
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
		case t.dependsOnStopHandler(v) && !t.awaitsStopHandler(s.now):
			t.continueWithoutPod(v, s) // whoever could have asked the guest is gone
		}
	}
}

// cancelStop ends nothing that was begun: it is enforced no more. What would be done, and why,
// is told anew.
func (v *VM) cancelStop(s *step) {
	v.Stage, v.Due, v.PodAsked = StageNone, 0, false
	v.State, v.Since, v.Why = agentapi.VMRunning, s.now, "the policy has changed to observe mode"
}

// decideStop begins to end a VM process that has to, unless a lease holds that back.
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
	case !t.StopRequested && t.leaseHolds(s.now):
		t.leaseReported = true
	default:
		t.startStop(v, why, s)
	}
}

// startStop begins to end a VM process. Whoever can do it gracefully is asked first: the
// pod, if somebody there takes that; else, for a node-level VM, libvirt. A pod that asks
// for the stop itself may have asked its guest before, and goes on with that for as long
// as its launcher lives.
func (t *Tie) startStop(v *VM, why string, s *step) {
	if !t.Terms.Enforce {
		if v.Why != why {
			v.Why = why
			s.report(agentapi.Warning, agentapi.ReasonWouldStop, v.PID, "%s would be stopped in enforce mode: %s", v.Describe(), why)
		}
		return
	}
	v.Why = why
	switch {
	case v.Domain == nil && t.StopRequested && t.LauncherGone == "":
		v.setStage(StageShutdown, t.Terms.GracePeriod, s)
	case t.canAskPod(v, s.now):
		t.shutdownByPod(v, s)
	case v.Domain != nil:
		v.setStage(StageShutdown, t.Terms.GracePeriod, s)
		t.shutdownByLibvirt(v, s)
	default:
		t.nextStage(v, s)
	}
}

func (t *Tie) shutdownByLibvirt(v *VM, s *step) {
	s.report(agentapi.Normal, agentapi.ReasonVMShutdown, v.PID, "the guest of %s is asked to shut down: %s", v.Describe(), v.Why)
	s.act(ShutdownByLibvirt{*v})
}

// nextStage goes one stage on.
func (t *Tie) nextStage(v *VM, s *step) {
	switch v.Stage {
	case StageNone, StageShutdown:
		v.setStage(StageTerm, t.Terms.TermPeriod, s)
		s.report(agentapi.Normal, agentapi.ReasonVMTerminated, v.PID, "%s is sent SIGTERM: %s", v.Describe(), v.Why)
		s.act(Terminate{*v})
	case StageTerm:
		v.setStage(StageKill, killRetryPeriod, s)
		s.report(agentapi.Warning, agentapi.ReasonVMKilled, v.PID, "%s is sent SIGKILL, %s after SIGTERM: %s", v.Describe(), t.Terms.TermPeriod, v.Why)
		s.act(Kill{*v})
	case StageKill:
		v.Due = s.now.Add(killRetryPeriod)
		s.report(agentapi.Warning, agentapi.ReasonVMStuck, v.PID, "%s does not end although it was sent SIGKILL; it may wait for a device", v.Describe())
		s.act(Kill{*v})
	}
}

func (v *VM) setStage(stage Stage, period time.Duration, s *step) {
	v.Stage, v.Due, v.PodAsked = stage, s.now.Add(period), false
	state := agentapi.VMStopping
	if stage == StageKill {
		state = agentapi.VMKilling
	}
	if v.State != state {
		v.State, v.Since = state, s.now
	}
}

// Describe names the VM in what people are told.
func (v *VM) Describe() string {
	if v.Domain != nil {
		return fmt.Sprintf("the VM of domain %s (%s)", v.Domain.Name, v.Executable)
	}
	return fmt.Sprintf("the VM process (%s)", v.Executable)
}
