package tie

import (
	"slices"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// Step returns what becomes of a tie at the moment now by what happened, and what
// is to be done. It is pure: t is not changed, and the same arguments give the same
// results. now must not be earlier than at the step before.
func Step(t Tie, now host.Boottime, in Input) (Tie, []Action) {
	t = t.clone()
	s := &step{now: now}
	in.apply(&t, s)
	t.watch(s)
	t.drain(s)
	t.stop(s)
	t.settle(s)
	return t, s.actions
}

func (i OwnerStarted) apply(t *Tie, s *step) {
	if t.Owner != nil {
		return
	}
	t.Owner = &i.Process
	if !t.Beat.Seen {
		t.Beat.At = s.now // it is expected from now on
	}
}

func (i OwnerEnded) apply(t *Tie, s *step) {
	if t.OwnerGone != "" {
		t.OwnerGoneAt = max(t.OwnerGoneAt, min(i.LastSeen, s.now))
	} else {
		t.OwnerGone, t.OwnerGoneAt = i.Proof, s.now
		if i.LastSeen != 0 {
			t.OwnerGoneAt = min(i.LastSeen, s.now)
		}
		t.looking = false // what was left a moment ago says nothing of now
		if t.Phase == agentapi.PhaseDone {
			t.enter(agentapi.PhaseDraining, goneWhy(i.Proof), s)
		}
	}
}

func (i VMStarted) apply(t *Tie, s *step) { t.add(i.VM, true, s) }

func (i VMEnded) apply(t *Tie, s *step) {
	v := t.VM(i.Process)
	if v == nil {
		return
	}
	how := i.How
	if how == "" {
		how = "it has ended"
	}
	s.tell(agentapi.Normal, agentapi.ReasonVMGone, v.PID, "%s is gone: %s", v.Describe(), how)
	t.VMs = slices.DeleteFunc(t.VMs, func(v VM) bool { return v.Same(i.Process) })
}

func (StopRequested) apply(t *Tie, s *step) {
	if t.StopRequested {
		return
	}
	t.StopRequested, t.looking = true, false
	s.tell(agentapi.Normal, agentapi.ReasonStopRequested, 0, "the pod asks for its VM to be stopped")
}

func (HeartbeatSeen) apply(t *Tie, s *step) {
	t.Beat = Beat{Seen: true, At: s.now}
	for at := range t.VMs {
		if !t.StopDone {
			t.VMs[at].Unattended = ""
		}
	}
}

func (i LeaseSet) apply(t *Tie, s *step) {
	t.leaseTold = false
	var lease Lease
	if i.For > 0 {
		lease = Lease{Until: s.now.Add(i.For), Reason: i.Reason}
	}
	if i.Pod || i.For <= 0 {
		t.PodLease = lease
	}
	if !i.Pod {
		t.Lease = lease
	}
}

func (Resumed) apply(t *Tie, s *step) { t.Beat.At = s.now }

func (Ticked) apply(*Tie, *step) {}

func (i Scanned) apply(t *Tie, s *step) {
	for _, v := range i.Found {
		t.add(v, false, s)
	}
	if !t.looking || i.Scan != t.look {
		return // something has happened since it was asked for
	}
	t.looking = false
	if t.restless() {
		t.finish(s)
	}
}

func (i ActionFailed) apply(t *Tie, s *step) {
	switch a := i.Action.(type) {
	case Shutdown:
		if v := t.VM(a.VM.Process); v != nil && v.Stage == StageShutdown {
			v.Due = min(v.Due, s.now)
			s.tell(agentapi.Warning, agentapi.ReasonVMShutdown, v.PID, "the guest of %s cannot be asked to shut down: %v", v.Describe(), i.Err)
		}
	case Terminate:
		s.tell(agentapi.Warning, agentapi.ReasonVMTerminated, a.VM.PID, "%s cannot be sent SIGTERM: %v", a.VM.Describe(), i.Err)
	case Kill:
		s.tell(agentapi.Warning, agentapi.ReasonVMKilled, a.VM.PID, "%s cannot be sent SIGKILL: %v", a.VM.Describe(), i.Err)
	}
}

func (i TermsChanged) apply(t *Tie, _ *step) { t.Terms = i.Terms }

// add enters a VM process. seen is set when it was seen to start.
func (t *Tie) add(v VM, seen bool, s *step) {
	if t.VM(v.Process) != nil {
		return
	}
	v.State, v.Since, v.Stage, v.Why = agentapi.VMRunning, s.now, StageNone, "started"
	s.tell(agentapi.Normal, agentapi.ReasonVMStarted, v.PID, "%s runs", v.Describe())
	s.do(CheckMemlock{v})
	t.VMs = append(t.VMs, v)
	t.looking = false
	why := t.unattended(seen, s.now)
	switch {
	case t.Phase == agentapi.PhaseDone && t.OwnerGone != "":
		t.enter(agentapi.PhaseDraining, t.Why, s)
	case t.Phase != agentapi.PhaseDraining:
		t.enter(agentapi.PhaseActive, "a VM process runs", s)
	}
	if why != "" && t.Phase == agentapi.PhaseActive {
		t.orphan(&t.VMs[len(t.VMs)-1], why, s)
	}
}

// unattended says why a VM process that starts now has no live pod or heartbeat.
func (t *Tie) unattended(seen bool, now host.Boottime) string {
	switch {
	case t.OwnerGone != "":
		return "it started after its launcher had ended"
	case t.StopDone:
		return "it started after its pod had asked for the stop"
	case seen && t.Terms.Watchdog > 0 && (!t.Beat.Seen || t.expired(now)):
		return "it started without a heartbeat of its launcher"
	}
	return ""
}

// orphan deals with a VM process that started unattended. Where its launcher has
// ended, that is reason enough to stop it, whatever the terms say of this.
func (t *Tie) orphan(v *VM, why string, s *step) {
	s.tell(agentapi.Warning, agentapi.ReasonVMUnattended, v.PID, "%s is unattended: %s", v.Describe(), why)
	if t.OwnerGone == "" {
		v.Unattended = why
	}
}

// watch notices that the heartbeat stays away, or that a lease is over.
func (t *Tie) watch(s *step) {
	if last := t.LastLease(); last.Until > 0 && !t.leased(s.now) {
		if t.leaseTold {
			s.tell(agentapi.Warning, agentapi.ReasonLeaseExpired, 0, "the lease for %q is over", last.Reason)
		}
		t.Lease, t.PodLease, t.leaseTold = Lease{}, Lease{}, false
	}
	t.hungTold = t.hungTold && t.expired(s.now)
	quiet := t.OwnerGone == "" && t.Owner != nil && t.expired(s.now)
	if !quiet || t.hungTold || t.leased(s.now) || t.draining() || t.handsOff() {
		return
	}
	t.hungTold = true
	s.tell(agentapi.Warning, agentapi.ReasonLauncherHung, t.Owner.PID,
		"no heartbeat of the launcher for more than %s, and it has not ended", t.Terms.Watchdog)
}

// reason says why the launcher's VM processes have to end; empty: they need not.
func (t *Tie) reason(now host.Boottime) string {
	switch {
	case t.handsOff():
		return ""
	case t.StopRequested:
		return "the pod asks for it"
	case t.OwnerGone != "":
		return goneWhy(t.OwnerGone)
	case t.hungTold && t.Terms.StopHung && t.expired(now):
		return "the launcher hangs, and the policy says stop"
	}
	return ""
}

func goneWhy(proof string) string { return "the launcher is gone: " + proof }

// drain enters the phase in which the VM processes are stopped.
func (t *Tie) drain(s *step) {
	why := t.reason(s.now)
	if why == "" || t.Phase == agentapi.PhaseDraining || t.Phase == agentapi.PhaseDone && !t.StopRequested {
		return
	}
	if !t.StopRequested && t.leased(s.now) {
		if !t.leaseTold {
			t.leaseTold = true
			t.Why = why + "; held back by a lease for " + t.LastLease().Reason
		}
		return
	}
	if t.OwnerGone != "" && len(t.VMs) > 0 && !t.StopRequested {
		s.tell(agentapi.Warning, agentapi.ReasonOwnerGone, 0, "the launcher has ended and left a VM process behind: %s", t.OwnerGone)
	}
	t.enter(agentapi.PhaseDraining, why, s)
}

// settle sees whether the last VM process has ended.
func (t *Tie) settle(s *step) {
	if len(t.VMs) > 0 {
		return
	}
	switch {
	case t.Phase == agentapi.PhaseActive:
		t.enter(agentapi.PhaseRegistered, "no VM process runs", s)
	case t.restless():
		t.look, t.looking = t.look+1, true
		s.do(RequestScan{t.look})
	}
}

// finish ends the draining: a look has shown that nothing is left.
func (t *Tie) finish(s *step) {
	t.enter(agentapi.PhaseDone, t.Why, s)
	if t.StopRequested {
		t.StopRequested, t.StopDone = false, true
		s.do(ConfirmStop{})
		s.tell(agentapi.Normal, agentapi.ReasonStopConfirmed, 0, "no VM process is left, and the pod is told so")
	}
}

func (t *Tie) enter(p agentapi.Phase, why string, s *step) { t.Phase, t.Why, t.Since = p, why, s.now }
