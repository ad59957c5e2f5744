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
	t.checkHeartbeatAndLease(s)
	t.startDraining(s)
	t.advanceStops(s)
	t.concludePhase(s)
	return t, s.actions
}

func (i LauncherStarted) apply(t *Tie, s *step) {
	if t.LauncherProcess != nil {
		return
	}
	t.LauncherProcess = &i.Process
	if !t.Heartbeat.Seen {
		t.Heartbeat.At = s.now // it is expected from now on
	}
}

func (i LauncherEnded) apply(t *Tie, s *step) {
	if t.LauncherGone != "" {
		t.LauncherGoneAt = max(t.LauncherGoneAt, min(i.LastSeen, s.now))
	} else {
		t.LauncherGone, t.LauncherGoneAt = i.Proof, s.now
		if i.LastSeen != 0 {
			t.LauncherGoneAt = min(i.LastSeen, s.now)
		}
		t.scanning = false // what was left a moment ago says nothing of now
		if t.Phase == agentapi.PhaseDone {
			t.setPhase(agentapi.PhaseDraining, launcherGoneReason(i.Proof), s)
		}
	}
}

func (i VMStarted) apply(t *Tie, s *step) { t.addVM(i.VM, true, s) }

func (i VMEnded) apply(t *Tie, s *step) {
	v := t.VM(i.Process)
	if v == nil {
		return
	}
	how := i.How
	if how == "" {
		how = "it has ended"
	}
	s.report(agentapi.Normal, agentapi.ReasonVMGone, v.PID, "%s is gone: %s", v.Describe(), how)
	t.VMs = slices.DeleteFunc(t.VMs, func(v VM) bool { return v.Same(i.Process) })
}

func (StopRequested) apply(t *Tie, s *step) {
	if t.StopRequested {
		return
	}
	t.StopRequested, t.scanning = true, false
	s.report(agentapi.Normal, agentapi.ReasonStopRequested, 0, "the pod asks for its VM to be stopped")
}

func (HeartbeatSeen) apply(t *Tie, s *step) {
	t.Heartbeat = Heartbeat{Seen: true, At: s.now}
	for at := range t.VMs {
		if !t.StopConfirmed {
			t.VMs[at].Unattended = ""
		}
	}
}

func (i LeaseSet) apply(t *Tie, s *step) {
	t.leaseReported = false
	var lease Lease
	if i.Period > 0 {
		lease = Lease{Until: s.now.Add(i.Period), Reason: i.Reason}
	}
	if i.ByPod || i.Period <= 0 {
		t.PodLease = lease
	}
	if !i.ByPod {
		t.Lease = lease
	}
}

func (AbsenceEnded) apply(t *Tie, s *step) { t.Heartbeat.At = s.now }

func (TimePassed) apply(*Tie, *step) {}

func (i Scanned) apply(t *Tie, s *step) {
	for _, v := range i.Found {
		t.addVM(v, false, s)
	}
	if !t.scanning || i.ID != t.scanID {
		return // something has happened since it was asked for
	}
	t.scanning = false
	if t.needsScan() {
		t.finishDraining(s)
	}
}

func (i ActionFailed) apply(t *Tie, s *step) {
	switch a := i.Action.(type) {
	case ShutdownByLibvirt:
		if v := t.VM(a.VM.Process); v != nil && v.Stage == StageShutdown {
			v.Due = min(v.Due, s.now)
			s.report(agentapi.Warning, agentapi.ReasonVMShutdown, v.PID, "the guest of %s cannot be asked to shut down: %v", v.Describe(), i.Err)
		}
	case Terminate:
		s.report(agentapi.Warning, agentapi.ReasonVMTerminated, a.VM.PID, "%s cannot be sent SIGTERM: %v", a.VM.Describe(), i.Err)
	case Kill:
		s.report(agentapi.Warning, agentapi.ReasonVMKilled, a.VM.PID, "%s cannot be sent SIGKILL: %v", a.VM.Describe(), i.Err)
	}
}

func (i TermsChanged) apply(t *Tie, _ *step) { t.Terms = i.Terms }

// addVM enters a VM process. seen is set when it was seen to start.
func (t *Tie) addVM(v VM, seen bool, s *step) {
	if t.VM(v.Process) != nil {
		return
	}
	v.State, v.Since, v.Stage, v.Why = agentapi.VMRunning, s.now, StageNone, "started"
	s.report(agentapi.Normal, agentapi.ReasonVMStarted, v.PID, "%s runs", v.Describe())
	s.act(CheckMemlock{v})
	t.VMs = append(t.VMs, v)
	t.scanning = false
	why := t.unattendedReason(seen, s.now)
	switch {
	case t.Phase == agentapi.PhaseDone && t.LauncherGone != "":
		t.setPhase(agentapi.PhaseDraining, t.Why, s)
	case t.Phase != agentapi.PhaseDraining:
		t.setPhase(agentapi.PhaseActive, "a VM process runs", s)
	}
	if why != "" && t.Phase == agentapi.PhaseActive {
		t.reportUnattended(&t.VMs[len(t.VMs)-1], why, s)
	}
}

// unattendedReason says why a VM process that starts now has no live pod or heartbeat.
func (t *Tie) unattendedReason(seen bool, now host.Boottime) string {
	switch {
	case t.LauncherGone != "":
		return "it started after its launcher had ended"
	case t.StopConfirmed:
		return "it started after its pod had asked for the stop"
	case seen && t.Terms.Watchdog > 0 && (!t.Heartbeat.Seen || t.heartbeatExpired(now)):
		return "it started without a heartbeat of its launcher"
	}
	return ""
}

// reportUnattended deals with a VM process that started unattended. Where its launcher has
// ended, that is reason enough to stop it, whatever the terms say of this.
func (t *Tie) reportUnattended(v *VM, why string, s *step) {
	s.report(agentapi.Warning, agentapi.ReasonVMUnattended, v.PID, "%s is unattended: %s", v.Describe(), why)
	if t.LauncherGone == "" {
		v.Unattended = why
	}
}

// watch notices that the heartbeat stays away, or that a lease is over.
func (t *Tie) checkHeartbeatAndLease(s *step) {
	if last := t.LastLease(); last.Until > 0 && !t.leaseHolds(s.now) {
		if t.leaseReported {
			s.report(agentapi.Warning, agentapi.ReasonLeaseExpired, 0, "the lease for %q is over", last.Reason)
		}
		t.Lease, t.PodLease, t.leaseReported = Lease{}, Lease{}, false
	}
	t.hungReported = t.hungReported && t.heartbeatExpired(s.now)
	quiet := t.LauncherGone == "" && t.LauncherProcess != nil && t.heartbeatExpired(s.now)
	if !quiet || t.hungReported || t.leaseHolds(s.now) || t.draining() || t.lacksProof() {
		return
	}
	t.hungReported = true
	s.report(agentapi.Warning, agentapi.ReasonLauncherHung, t.LauncherProcess.PID,
		"no heartbeat of the launcher for more than %s, and it has not ended", t.Terms.Watchdog)
}

// stopReason says why the launcher's VM processes have to end; empty: they need not.
func (t *Tie) stopReason(now host.Boottime) string {
	switch {
	case t.lacksProof():
		return ""
	case t.StopRequested:
		return "the pod asks for it"
	case t.LauncherGone != "":
		return launcherGoneReason(t.LauncherGone)
	case t.hungReported && t.Terms.StopHung && t.heartbeatExpired(now):
		return "the launcher hangs, and the policy says stop"
	}
	return ""
}

func launcherGoneReason(proof string) string { return "the launcher is gone: " + proof }

// startDraining enters the phase in which the VM processes are stopped.
func (t *Tie) startDraining(s *step) {
	why := t.stopReason(s.now)
	if why == "" || t.Phase == agentapi.PhaseDraining || t.Phase == agentapi.PhaseDone && !t.StopRequested {
		return
	}
	if !t.StopRequested && t.leaseHolds(s.now) {
		if !t.leaseReported {
			t.leaseReported = true
			t.Why = why + "; held back by a lease for " + t.LastLease().Reason
		}
		return
	}
	if t.LauncherGone != "" && len(t.VMs) > 0 && !t.StopRequested {
		s.report(agentapi.Warning, agentapi.ReasonOwnerGone, 0, "the launcher has ended and left a VM process behind: %s", t.LauncherGone)
	}
	t.setPhase(agentapi.PhaseDraining, why, s)
}

// concludePhase sees whether the last VM process has ended.
func (t *Tie) concludePhase(s *step) {
	if len(t.VMs) > 0 {
		return
	}
	switch {
	case t.Phase == agentapi.PhaseActive:
		t.setPhase(agentapi.PhaseRegistered, "no VM process runs", s)
	case t.needsScan():
		t.scanID, t.scanning = t.scanID+1, true
		s.act(RequestScan{t.scanID})
	}
}

// finishDraining ends the draining: a look has shown that nothing is left.
func (t *Tie) finishDraining(s *step) {
	t.setPhase(agentapi.PhaseDone, t.Why, s)
	if t.StopRequested {
		t.StopRequested, t.StopConfirmed = false, true
		s.act(ConfirmStop{})
		s.report(agentapi.Normal, agentapi.ReasonStopConfirmed, 0, "no VM process is left, and the pod is told so")
	}
}

func (t *Tie) setPhase(p agentapi.Phase, why string, s *step) {
	t.Phase, t.Why, t.Since = p, why, s.now
}
