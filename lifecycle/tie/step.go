package tie

import (
	"slices"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// Step applies an event to a tie at the moment now. It returns the next tie and the actions to
// execute. Step is pure: it does not change t, and equal arguments give equal results. now must not
// be earlier than in the step before.
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
		t.Heartbeat.At = s.now // expected from now on
	}
}

func (i LauncherEnded) apply(t *Tie, s *step) {
	if t.LauncherGone != "" {
		t.LauncherGoneAt = max(t.LauncherGoneAt, min(i.LastSeen, s.now))
		return
	}
	t.LauncherGone, t.LauncherGoneAt = i.Proof, s.now
	if i.LastSeen != 0 {
		t.LauncherGoneAt = min(i.LastSeen, s.now)
	}
	t.scanning = false // a scan from before the end is void
	if t.Phase == agentapi.PhaseDone {
		t.setPhase(agentapi.PhaseDraining, launcherGoneReason(i.Proof), s)
	}
}

func (i VMStarted) apply(t *Tie, s *step) { t.addVM(i.VM, true, s) }

func (i VMEnded) apply(t *Tie, s *step) {
	v := t.VM(i.Process)
	if v == nil {
		return
	}
	if i.How == "" {
		s.note(agentapi.ReasonVMGone, v.PID, "%s has ended", v.Describe())
	} else {
		s.note(agentapi.ReasonVMGone, v.PID, "%s has ended: %s", v.Describe(), i.How)
	}
	if own := v.OwnCgroup; own != "" && !slices.Contains(t.LeftCgroups, own) {
		t.LeftCgroups = append(t.LeftCgroups, own)
	}
	t.recordEnd(v, s)
	t.removeVM(i.Process)
}

func (i VMReassigned) apply(t *Tie, _ *step) { t.removeVM(i.Process) }

func (t *Tie) removeVM(p host.Process) {
	t.VMs = slices.DeleteFunc(t.VMs, func(v VM) bool { return v.Same(p) })
}

func (StopRequested) apply(t *Tie, s *step) {
	if t.StopRequested {
		return
	}
	t.StopRequested, t.scanning = true, false
	s.note(agentapi.ReasonStopRequested, 0, "the pod requests the stop of its VM")
}

func (HeartbeatSeen) apply(t *Tie, s *step) {
	t.Heartbeat = Heartbeat{Seen: true, At: s.now}
	if t.StopConfirmed {
		return // a heartbeat does not excuse a VM process started after the stop
	}
	for at := range t.VMs {
		t.VMs[at].Unattended = ""
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

func (AbsenceEnded) apply(t *Tie, s *step) { t.ExcuseHeartbeat(s.now) }

func (TimePassed) apply(*Tie, *step) {}

func (i Scanned) apply(t *Tie, s *step) {
	for _, v := range i.Found {
		t.addVM(v, false, s)
	}
	t.LeftCgroups = slices.DeleteFunc(t.LeftCgroups, func(cgroup string) bool {
		return i.Emptied[cgroup]
	})
	if !t.scanning || i.ID != t.scanID {
		return // an event since the request has made the scan void
	}
	t.scanning = false
	if t.needsScan() {
		t.finishDraining(s)
	}
}

func (i ActionFailed) apply(t *Tie, s *step) {
	switch a := i.Action.(type) {
	case ShutdownByLibvirt:
		t.shutdownFailed(a, i, s)
	case Terminate:
		s.warn(agentapi.ReasonVMTerminated, a.VM.PID,
			"SIGTERM to %s failed: %v", a.VM.Describe(), i.Err)
	case Kill:
		s.warn(agentapi.ReasonVMKilled, a.VM.PID,
			"SIGKILL to %s failed: %v", a.VM.Describe(), i.Err)
	}
}

func (i TermsChanged) apply(t *Tie, _ *step) { t.Terms = i.Terms }

// addVM adds a VM process. startSeen: the agent has observed its start.
func (t *Tie) addVM(v VM, startSeen bool, s *step) {
	if t.VM(v.Process) != nil {
		return
	}
	v.State, v.Since, v.Stage, v.Why = agentapi.VMRunning, s.now, StageNone, "started"
	s.note(agentapi.ReasonVMStarted, v.PID, "%s runs", v.Describe())
	s.act(CheckMemlock{v})
	t.VMs = append(t.VMs, v)
	if v.Domain != nil {
		t.LastEnd = nil
	}
	t.scanning = false
	why := t.unattendedReason(startSeen, s.now)
	switch {
	case t.Phase == agentapi.PhaseDone && t.LauncherGone != "":
		t.setPhase(agentapi.PhaseDraining, t.Why, s)
	case t.Phase != agentapi.PhaseDraining:
		t.setPhase(agentapi.PhaseActive, "a VM process runs", s)
	}
	if why != "" && t.Phase == agentapi.PhaseActive {
		t.setUnattended(&t.VMs[len(t.VMs)-1], why, s)
	}
}

// unattendedReason returns the reason why a VM process starting now is unattended.
func (t *Tie) unattendedReason(startSeen bool, now host.Boottime) string {
	switch {
	case t.LauncherGone != "":
		return "it started after its launcher had ended"
	case t.StopConfirmed:
		return "it started after the confirmed stop of its pod"
	case startSeen && t.Terms.Watchdog > 0 && (!t.Heartbeat.Seen || t.heartbeatExpired(now)):
		return "it started without a heartbeat of its launcher"
	}
	return ""
}

// setUnattended reports an unattended VM process. The end of the launcher stops it under all terms,
// so only another reason is kept for StopUnattended.
func (t *Tie) setUnattended(v *VM, why string, s *step) {
	s.warn(agentapi.ReasonVMUnattended, v.PID, "%s is unattended: %s", v.Describe(), why)
	if t.LauncherGone == "" {
		v.Unattended = why
	}
}

// checkHeartbeatAndLease reports a missing heartbeat, and ends an expired lease.
func (t *Tie) checkHeartbeatAndLease(s *step) {
	if last := t.LastLease(); last.Until > 0 && !t.leaseHolds(s.now) {
		if t.leaseReported {
			s.warn(agentapi.ReasonLeaseExpired, 0, "the lease for %q has expired", last.Reason)
		}
		t.Lease, t.PodLease, t.leaseReported = Lease{}, Lease{}, false
	}
	expired := t.heartbeatExpired(s.now)
	t.hungReported = t.hungReported && expired
	hangs := expired && t.LauncherProcess != nil && t.canHang()
	if !hangs || t.hungReported || t.leaseHolds(s.now) {
		return
	}
	t.hungReported = true
	s.warn(agentapi.ReasonLauncherHung, t.LauncherProcess.PID,
		"no heartbeat of the launcher for more than %s, and it still runs", t.Terms.Watchdog)
}

// stopReason returns the reason to stop the launcher's VM processes. Empty: there is none.
func (t *Tie) stopReason() string {
	switch {
	case t.lacksProof():
		return ""
	case t.StopRequested:
		return "the pod requests the stop"
	case t.LauncherGone != "":
		return launcherGoneReason(t.LauncherGone)
	case t.hungReported && t.Terms.StopHung:
		return "the launcher hangs, and the policy says stop"
	}
	return ""
}

func launcherGoneReason(proof string) string { return "the launcher is gone: " + proof }

// startDraining enters the phase Draining if a stop has a reason and no lease holds it back.
func (t *Tie) startDraining(s *step) {
	why := t.stopReason()
	stopped := t.Phase == agentapi.PhaseDone && !t.StopRequested
	if why == "" || t.Phase == agentapi.PhaseDraining || stopped {
		return
	}
	confirmable := t.StopRequested && len(t.VMs) == 0 // the VM may have migrated away
	if t.leaseHolds(s.now) && !confirmable {
		if !t.leaseReported {
			t.Why = why + "; held back by a lease for " + t.LastLease().Reason
		}
		t.holdBack(s)
		return
	}
	if t.LauncherGone != "" && len(t.VMs) > 0 && !t.StopRequested {
		s.warn(agentapi.ReasonOwnerGone, 0,
			"the launcher has ended, and its VM process still runs: %s", t.LauncherGone)
	}
	t.setPhase(agentapi.PhaseDraining, why, s)
}

// concludePhase leaves the phase Active without a VM process, and requests a scan in Draining.
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

// finishDraining enters the phase Done after a scan without VM processes.
func (t *Tie) finishDraining(s *step) {
	t.setPhase(agentapi.PhaseDone, t.Why, s)
	t.LeftCgroups = nil
	if !t.StopRequested {
		return
	}
	t.StopRequested, t.StopConfirmed = false, true
	s.act(ConfirmStop{})
	s.note(agentapi.ReasonStopConfirmed, 0,
		"no VM process is left, and the agent confirms the stop to the pod")
}

func (t *Tie) setPhase(p agentapi.Phase, why string, s *step) {
	t.Phase, t.Why, t.Since = p, why, s.now
}
