package tie

import (
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// stop brings every VM process that has to end one stage on, if it is time.
func (t *Tie) stop(s *step) {
	if t.handsOff() {
		return
	}
	for i := range t.VMs {
		v := &t.VMs[i]
		if !t.Terms.Enforce && v.Stage != StageNone {
			v.spare(s)
		}
		switch {
		case v.Stage == StageNone:
			t.judge(v, s)
		case s.now >= v.Due:
			t.next(v, s)
		case t.onTaker(v) && !t.expected(s.now):
			t.forsake(v, s) // whoever could have asked the guest is gone
		}
	}
}

// spare ends nothing that was begun: it is enforced no more. What would be done, and why,
// is told anew.
func (v *VM) spare(s *step) {
	v.Stage, v.Due, v.ByPod = StageNone, 0, false
	v.State, v.Since, v.Why = agentapi.VMRunning, s.now, "the policy has changed to observe mode"
}

// judge begins to end a VM process that has to, unless a lease holds that back.
func (t *Tie) judge(v *VM, s *step) {
	var why string
	switch {
	case t.Phase == agentapi.PhaseDraining:
		why = t.Why
	case t.Terms.StopUnattended:
		why = v.Unattended
	}
	switch {
	case why == "":
	case !t.StopRequested && t.leased(s.now):
		t.leaseTold = true
	default:
		t.begin(v, why, s)
	}
}

// begin begins to end a VM process. Whoever can do it gracefully is asked first: the
// pod, if somebody there takes that; else, for a node-level VM, libvirt. A pod that asks
// for the stop itself may have asked its guest before, and goes on with that for as long
// as its launcher lives.
func (t *Tie) begin(v *VM, why string, s *step) {
	if !t.Terms.Enforce {
		if v.Why != why {
			v.Why = why
			s.tell(agentapi.Warning, agentapi.ReasonWouldStop, v.PID, "%s would be stopped in enforce mode: %s", v.Describe(), why)
		}
		return
	}
	v.Why = why
	switch {
	case v.Domain == nil && t.StopRequested && t.OwnerGone == "":
		v.enter(StageShutdown, t.Terms.GracePeriod, s)
	case t.asksPod(v, s.now):
		t.askPod(v, s)
	case v.Domain != nil:
		v.enter(StageShutdown, t.Terms.GracePeriod, s)
		t.askLibvirt(v, s)
	default:
		t.next(v, s)
	}
}

func (t *Tie) askLibvirt(v *VM, s *step) {
	s.tell(agentapi.Normal, agentapi.ReasonVMShutdown, v.PID, "the guest of %s is asked to shut down: %s", v.Describe(), v.Why)
	s.do(Shutdown{*v})
}

// next goes one stage on.
func (t *Tie) next(v *VM, s *step) {
	switch v.Stage {
	case StageNone, StageShutdown:
		v.enter(StageTerm, t.Terms.TermPeriod, s)
		s.tell(agentapi.Normal, agentapi.ReasonVMTerminated, v.PID, "%s is sent SIGTERM: %s", v.Describe(), v.Why)
		s.do(Terminate{*v})
	case StageTerm:
		v.enter(StageKill, stuckPeriod, s)
		s.tell(agentapi.Warning, agentapi.ReasonVMKilled, v.PID, "%s is sent SIGKILL, %s after SIGTERM: %s", v.Describe(), t.Terms.TermPeriod, v.Why)
		s.do(Kill{*v})
	case StageKill:
		v.Due = s.now.Add(stuckPeriod)
		s.tell(agentapi.Warning, agentapi.ReasonVMStuck, v.PID, "%s does not end although it was sent SIGKILL; it may wait for a device", v.Describe())
		s.do(Kill{*v})
	}
}

func (v *VM) enter(stage Stage, period time.Duration, s *step) {
	v.Stage, v.Due, v.ByPod = stage, s.now.Add(period), false
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
