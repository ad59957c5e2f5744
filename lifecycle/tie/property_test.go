package tie_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// check compares one action with the guarantees.
func (m *model) check(t *rapid.T, before tie.Tie, a tie.Action) {
	switch a := a.(type) {
	case tie.Report:
		if m.lacksProof() && a.Reason == agentapi.ReasonLauncherHung {
			t.Fatal("LauncherHung without proof, although the fence reads no heartbeat")
		}
	case tie.ShutdownByLibvirt:
		m.checkReason(t, before, a.VM)
		m.checkLibvirtShutdown(t, a.VM)
	case tie.ShutdownByPod:
		m.checkReason(t, before, a.VM)
		m.checkPodShutdown(t, before, a.VM)
	case tie.Terminate:
		m.checkReason(t, before, a.VM)
		m.checkTerminate(t, before, a.VM)
	case tie.Kill:
		m.checkReason(t, before, a.VM)
		if e := m.stops[a.VM.Process]; e == nil || e.term == 0 || m.now < e.term {
			t.Fatalf("SIGKILL to %d without SIGTERM a term period earlier", a.VM.PID)
		}
	case tie.ConfirmStop:
		if m.lacksProof() {
			t.Fatal("a stop is confirmed without proof")
		}
		if !m.stopRequested {
			t.Fatal("a stop is confirmed without a request")
		}
		m.checkNothingLeft(t)
	}
}

// checkReason: a VM process gets no signal and no request without a reason, in observe mode, or
// under a lease.
func (m *model) checkReason(t *rapid.T, before tie.Tie, v tie.VM) {
	if m.vm(v.Process) == nil {
		t.Fatalf("action on %d, which is no VM process of the tie", v.PID)
	}
	if !m.tie.Terms.Enforce {
		t.Fatalf("action on %d in observe mode", v.PID)
	}
	if m.lacksProof() {
		t.Fatalf("action on %d without proof that the launcher is gone", v.PID)
	}
	unattended := m.unattended[v.Process] && m.everStopUnattended
	if !m.everRequested && !m.launcherGone && !m.everHung && !unattended {
		t.Fatalf("action on %d without a reason", v.PID)
	}
	was := vmOf(before, v.Process)
	begun := was != nil && was.Stage != tie.StageNone
	if !begun && m.now < m.leaseUntil {
		t.Fatalf("stop of %d although a lease holds until %v", v.PID, m.leaseUntil)
	}
}

func (m *model) checkLibvirtShutdown(t *rapid.T, v tie.VM) {
	if v.Domain == nil {
		t.Fatalf("libvirt is asked to shut down %d, a process of the pod", v.PID)
	}
	e := m.stops[v.Process]
	again := e != nil && e.libvirtRequest && m.now >= e.libvirtAgain
	if e != nil && (e.term != 0 || !again && (e.libvirtRequest || !e.podRequest)) {
		t.Fatalf("a second request to the guest of %d", v.PID)
	}
	if e != nil && !again && m.expectsHandler() {
		t.Fatalf("request to libvirt for %d, although the pod's stop handler has one", v.PID)
	}
}

// checkTerminate: a guest that may be shutting down gets its grace period.
func (m *model) checkTerminate(t *rapid.T, before tie.Tie, v tie.VM) {
	e := m.stopOf(v.Process)
	hopeless := v.Domain == nil && (m.launcherGone || !m.stopRequested) && !m.expectsHandler()
	if m.now < e.grace && !e.libvirtFailed && !hopeless {
		t.Fatalf("SIGTERM to %d at %v, within the grace period until %v", v.PID, m.now, e.grace)
	}
	if e.grace == 0 && (v.Domain != nil || m.canAskGuest(before, v)) {
		t.Fatalf("SIGTERM to %d without a request to its guest", v.PID)
	}
	if v.Domain == nil && e.grace == 0 && m.stopRequested && !m.launcherGone {
		t.Fatalf("SIGTERM to %d at once, although its pod may have asked the guest", v.PID)
	}
	if e.term != 0 {
		t.Fatalf("a second SIGTERM to %d", v.PID)
	}
}

// checkNothingLeft: only a scan proves the end of all VM processes, and only if requested
// after the last event.
func (m *model) checkNothingLeft(t *rapid.T) {
	if len(m.tie.VMs) > 0 {
		t.Fatalf("done with %+v", m.tie.VMs)
	}
	current := m.answeredScan != 0 && m.answeredScan == m.lastScan
	if !current || m.scans[m.lastScan] < m.lastChange {
		t.Fatalf("done after scan %d of step %d; the last scan is %d, the last event in step %d",
			m.answeredScan, m.scans[m.answeredScan], m.lastScan, m.lastChange)
	}
}

// checkState compares the tie with the guarantees.
func (m *model) checkState(t *rapid.T, before tie.Tie) {
	was, now := before.Phase, m.tie.Phase
	if now == agentapi.PhaseDone && was != agentapi.PhaseDone || m.tie.Over() && !before.Over() {
		m.checkNothingLeft(t)
	}
	if m.lacksProof() && now == agentapi.PhaseDraining && was != agentapi.PhaseDraining {
		t.Fatal("draining without proof that the launcher is gone")
	}
	m.checkDue(t)
	m.checkPhase(t)
	m.checkStages(t, before)
	m.checkStates(t)
	if m.tie.LauncherGoneAt != m.goneAt {
		t.Fatalf("the launcher is gone since %v, want %v", m.tie.LauncherGoneAt, m.goneAt)
	}
}

// checkDue: the due time is in the future, and a finished tie has none.
func (m *model) checkDue(t *rapid.T) {
	at, ok := m.tie.Due()
	if ok && at <= m.now {
		t.Fatalf("due at %v, and it is %v", at, m.now)
	}
	if ok && m.tie.Over() {
		t.Fatalf("over, and due at %v", at)
	}
}

// checkPhase: the phase fits the VM processes.
func (m *model) checkPhase(t *rapid.T) {
	some := len(m.tie.VMs) > 0
	switch m.tie.Phase {
	case agentapi.PhaseActive:
		if !some {
			t.Fatal("active without a VM process")
		}
	case agentapi.PhaseRegistered, agentapi.PhaseDone:
		if some {
			t.Fatalf("%s with %+v", m.tie.Phase, m.tie.VMs)
		}
	case agentapi.PhaseDraining:
	default:
		t.Fatalf("phase %q", m.tie.Phase)
	}
	running := m.tie.Phase == agentapi.PhaseActive || m.tie.Phase == agentapi.PhaseRegistered
	if m.stopRequested && !some && !m.lacksProof() && running {
		t.Fatalf("%s without a VM process, and the pod requests the stop", m.tie.Phase)
	}
	if m.launcherGone && m.now >= m.leaseUntil && running {
		t.Fatalf("%s, and its launcher is gone", m.tie.Phase)
	}
}

// checkStages: no event delays a stop in progress. It records the end of each grace period.
func (m *model) checkStages(t *rapid.T, before tie.Tie) {
	for _, v := range m.tie.VMs {
		was := vmOf(before, v.Process)
		if was != nil && m.tie.Terms.Enforce && delayed(*was, v) {
			t.Fatalf("the stop of %d was at stage %d until %v, and is at %d until %v",
				v.PID, was.Stage, was.Due, v.Stage, v.Due)
		}
		if v.Stage == tie.StageShutdown && (was == nil || was.Stage != tie.StageShutdown) {
			m.stopOf(v.Process).grace = m.graceEnd()
		}
	}
}

// graceEnd returns the earliest end of a grace period starting now.
func (m *model) graceEnd() host.Boottime {
	period := m.tie.Terms.GracePeriod
	if m.goneSeen == 0 {
		return m.now.Add(period)
	}
	return max(m.goneSeen.Add(period), m.now.Add(min(period, leastGrace)))
}

func delayed(before, after tie.VM) bool {
	same := after.Stage == before.Stage && after.Stage != tie.StageKill
	return after.Stage < before.Stage || same && after.Due > before.Due
}

// checkStates: the state of a VM process fits its stage. In observe mode an Event reports each
// stop.
func (m *model) checkStates(t *rapid.T) {
	shows := map[tie.Stage]agentapi.VMState{
		tie.StageNone: agentapi.VMRunning, tie.StageShutdown: agentapi.VMStopping,
		tie.StageTerm: agentapi.VMStopping, tie.StageKill: agentapi.VMKilling,
	}
	leased := m.now < m.leaseUntil
	for _, v := range m.tie.VMs {
		if v.State != shows[v.Stage] {
			t.Fatalf("the state of %d is %s at stage %d", v.PID, v.State, v.Stage)
		}
		if v.Stage != tie.StageNone {
			delete(m.wouldStop, v.Process)
		}
		if m.tie.Terms.Enforce || m.lacksProof() {
			continue
		}
		if v.Stage != tie.StageNone {
			t.Fatalf("%d is at stage %d in observe mode", v.PID, v.Stage)
		}
		if m.tie.Phase == agentapi.PhaseDraining && !leased && !m.wouldStop[v.Process] {
			t.Fatalf("no Event WouldStop for %d", v.PID)
		}
	}
}

// checkBounds: after a reason for a stop, each history ends in bounded time, also after a restart
// of the agent.
func (m *model) checkBounds(t *rapid.T) {
	terms := drawTerms(t)
	terms.Enforce, terms.ProofOnly = true, false
	m.stepNow(t, tie.TermsChanged{Terms: terms})
	reason := rapid.SampledFrom([]tie.Input{stopRequested, launcherEnded}).Draw(t, "reason")
	m.stepNow(t, reason)
	limit := max(m.now, m.leaseUntil).Add(maxGrace + maxTerm)
	if m.launcherGone {
		limit = max(m.now.Add(maxGrace), m.lease.Add(maxGrace), m.leaseUntil.Add(leastGrace)).
			Add(maxTerm)
	}
	if m.twin == nil && rapid.Bool().Draw(t, "restart before the end") {
		m.restart(t)
	}
	m.killAll(t, limit)
	m.finish(t)
}

// killAll lets time pass until each VM process has got SIGKILL.
func (m *model) killAll(t *rapid.T, limit host.Boottime) {
	for !m.allKilled() {
		at, ok := m.tie.Due()
		if !ok || at > limit {
			t.Fatalf("no due time before %v (next: %v, %t): %+v", limit, at, ok, m.tie)
		}
		m.now = max(m.now, at)
		m.stepNow(t, timePassed)
	}
}

func (m *model) allKilled() bool {
	for _, v := range m.tie.VMs {
		if v.Stage != tie.StageKill {
			return false
		}
	}
	return m.tie.Phase == agentapi.PhaseDraining || m.tie.Phase == agentapi.PhaseDone
}

// finish ends all processes.
func (m *model) finish(t *rapid.T) {
	for _, v := range deepCopy(m.tie).VMs {
		m.stepNow(t, tie.VMEnded{Process: v.Process})
	}
	m.dueNow(t)
	m.stepNow(t, tie.Scanned{ID: m.lastScan})
	if m.tie.Phase != agentapi.PhaseDone || m.stopRequested {
		t.Fatalf("no process is left, and the phase is not Done (stop requested: %t): %+v",
			m.stopRequested, m.tie)
	}
	m.stepNow(t, launcherEnded)
	m.stepNow(t, tie.Scanned{ID: m.lastScan})
	if !m.tie.Over() {
		t.Fatalf("no process is left, and the tie is not over: %+v", m.tie)
	}
}

// dueNow steps a due tie at once, as a supervisor does after it has taken the tie over.
func (m *model) dueNow(t *rapid.T) {
	if at, ok := m.tie.Due(); ok && at <= m.now {
		m.stepNow(t, timePassed)
	}
}

func TestProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(m.operations())
		m.checkBounds(t)
	})
}

// TestRestoredProperty: the stored fields suffice. A restored tie behaves like the original.
func TestRestoredProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(m.operations())
		twin := storeAndLoad(m.tie)
		m.twin, m.twinScan = &twin, 0
		m.stepNow(t, timePassed)
		operations := m.operations()
		delete(operations, "restart")
		t.Repeat(operations)
		m.checkBounds(t)
	})
}

// stepTwin applies the same event to the restored tie.
func (m *model) stepTwin(t *rapid.T, in tie.Input, next tie.Tie, actions []tie.Action) {
	if m.twin == nil {
		return
	}
	if scanned, ok := in.(tie.Scanned); ok { // each tie numbers its own scans
		scanned.ID = m.twinScan - min(m.twinScan, m.lastScan-scanned.ID)
		in = scanned
	}
	twin, done := tie.Step(*m.twin, m.now, in)
	m.twin, m.twinScan = &twin, lastScan(done, m.twinScan)
	diff := cmp.Diff(next, twin, cmpopts.IgnoreUnexported(tie.Tie{}),
		cmpopts.IgnoreFields(tie.Tie{}, "Why"), cmpopts.EquateEmpty())
	if diff != "" {
		t.Fatalf("%T on the tie and on the restored one (-tie +restored):\n%s", in, diff)
	}
	if diff := cmp.Diff(showEffects(actions), showEffects(done)); diff != "" {
		t.Fatalf("actions of %T (-tie +restored):\n%s", in, diff)
	}
}

// showEffects returns the actions on processes and pods.
func showEffects(actions []tie.Action) string {
	deeds := slices.DeleteFunc(slices.Clone(actions), func(a tie.Action) bool {
		switch a.(type) {
		case tie.Report, tie.RequestScan:
			return true
		}
		return false
	})
	return showActions(deeds)
}
