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

// check holds one action to what is promised.
func (m *tieModel) check(t *rapid.T, before tie.Tie, a tie.Action) {
	switch a := a.(type) {
	case tie.Report:
		if m.handsOff() && a.Reason == agentapi.ReasonLauncherHung {
			t.Fatal("told that the launcher hangs by one who reads no heartbeat")
		}
	case tie.ShutdownByLibvirt:
		m.checkReason(t, before, a.VM)
		m.checkShutdown(t, a.VM)
	case tie.ShutdownByPod:
		m.checkReason(t, before, a.VM)
		m.checkAskPod(t, before, a.VM)
	case tie.Terminate:
		m.checkReason(t, before, a.VM)
		m.checkTerminate(t, before, a.VM)
	case tie.Kill:
		m.checkReason(t, before, a.VM)
		if e := m.ends[a.VM.Process]; e == nil || e.term == 0 || m.now < e.term {
			t.Fatalf("SIGKILL for %d without SIGTERM a term period before", a.VM.PID)
		}
	case tie.ConfirmStop:
		if m.handsOff() {
			t.Fatal("a stop is confirmed by one who may only act on proof")
		}
		if !m.asked {
			t.Fatal("a stop is confirmed that nobody asked for")
		}
		m.checkNothingLeft(t)
	}
}

// checkReason: nothing is done to a VM process without a reason, in observe mode,
// or while a lease holds that back.
func (m *tieModel) checkReason(t *rapid.T, before tie.Tie, v tie.VM) {
	if m.vm(v.Process) == nil {
		t.Fatalf("done to %d, which is none of its VM processes", v.PID)
	}
	if !m.tie.Terms.Enforce {
		t.Fatalf("done to %d in observe mode", v.PID)
	}
	if m.handsOff() {
		t.Fatalf("done to %d without the proof that its owner is gone", v.PID)
	}
	if !m.everAsked && !m.gone && !m.everHung && (!m.unattended[v.Process] || !m.everStopUnattended) {
		t.Fatalf("done to %d without a reason", v.PID)
	}
	was := vmOf(before, v.Process)
	begun := was != nil && was.Stage != tie.StageNone
	if !begun && !m.asked && m.now < m.leaseUntil {
		t.Fatalf("begun to end %d although a lease holds until %v", v.PID, m.leaseUntil)
	}
}

func (m *tieModel) checkShutdown(t *rapid.T, v tie.VM) {
	if v.Domain == nil {
		t.Fatalf("libvirt is asked to shut down %d, a process of the pod", v.PID)
	}
	e := m.ends[v.Process]
	if e != nil && (e.asked || e.term != 0 || !e.pod) {
		t.Fatalf("the guest of %d is asked again", v.PID)
	}
	if e != nil && m.expected() {
		t.Fatalf("libvirt is asked to shut down %d, although the pod was, and somebody there takes that", v.PID)
	}
}

// checkTerminate: a guest that may be shutting down gets its grace period.
func (m *tieModel) checkTerminate(t *rapid.T, before tie.Tie, v tie.VM) {
	e := m.end(v.Process)
	hopeless := v.Domain == nil && (m.gone || !m.asked) && !m.expected()
	if m.now < e.grace && !e.hurry && !hopeless {
		t.Fatalf("SIGTERM for %d at %v, within the grace period until %v", v.PID, m.now, e.grace)
	}
	if e.grace == 0 && (v.Domain != nil || m.couldAsk(before, v)) {
		t.Fatalf("SIGTERM for %d, whose guest was never asked", v.PID)
	}
	if v.Domain == nil && e.grace == 0 && m.asked && !m.gone {
		t.Fatalf("SIGTERM for %d at once, although its pod may have asked the guest", v.PID)
	}
	if e.term != 0 {
		t.Fatalf("SIGTERM for %d again", v.PID)
	}
}

// checkNothingLeft: only a look proves that nothing is left, and only one that was
// asked for after the last thing that happened.
func (m *tieModel) checkNothingLeft(t *rapid.T) {
	if len(m.tie.VMs) > 0 {
		t.Fatalf("taken for gone: %+v", m.tie.VMs)
	}
	if m.answer == 0 || m.answer != m.last || m.looks[m.last] < m.changed {
		t.Fatalf("taken for gone by look %d, asked for in step %d; the last is %d, and something happened in step %d",
			m.answer, m.looks[m.answer], m.last, m.changed)
	}
}

// checkState holds what has become of the tie to what is promised.
func (m *tieModel) checkState(t *rapid.T, before tie.Tie) {
	if m.tie.Phase == agentapi.PhaseDone && before.Phase != agentapi.PhaseDone || m.tie.Over() && !before.Over() {
		m.checkNothingLeft(t)
	}
	if m.handsOff() && m.tie.Phase == agentapi.PhaseDraining && before.Phase != agentapi.PhaseDraining {
		t.Fatal("draining without the proof that its owner is gone")
	}
	m.checkDue(t)
	m.checkPhase(t)
	m.checkStages(t, before)
	m.checkStates(t)
	if m.tie.LauncherGoneAt != m.goneAt {
		t.Fatalf("the owner is gone since %v, want %v", m.tie.LauncherGoneAt, m.goneAt)
	}
}

// checkDue: nobody is woken for nothing, and least of all for ever.
func (m *tieModel) checkDue(t *rapid.T) {
	at, ok := m.tie.Due()
	if ok && at <= m.now {
		t.Fatalf("due at %v, and it is %v", at, m.now)
	}
	if ok && m.tie.Over() {
		t.Fatalf("over, and due at %v", at)
	}
}

// checkPhase: phases and VM processes go together.
func (m *tieModel) checkPhase(t *rapid.T) {
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
	if m.gone && m.now >= m.leaseUntil && (m.tie.Phase == agentapi.PhaseActive || m.tie.Phase == agentapi.PhaseRegistered) {
		t.Fatalf("%s, and its owner is gone", m.tie.Phase)
	}
}

// checkStages: nothing puts off an end that was begun. It remembers until when guests
// may be shutting down.
func (m *tieModel) checkStages(t *rapid.T, before tie.Tie) {
	for _, v := range m.tie.VMs {
		was := vmOf(before, v.Process)
		putOff := was != nil && (v.Stage < was.Stage || v.Stage == was.Stage && v.Stage != tie.StageKill && v.Due > was.Due)
		if putOff && m.tie.Terms.Enforce {
			t.Fatalf("the end of %d was at stage %d until %v, and is at %d until %v", v.PID, was.Stage, was.Due, v.Stage, v.Due)
		}
		if v.Stage == tie.StageShutdown && (was == nil || was.Stage != tie.StageShutdown) {
			m.end(v.Process).grace = m.now.Add(m.tie.Terms.GracePeriod)
		}
	}
}

// checkStates: what is shown of a VM process is what is done to it, and in observe mode it
// is told what would be done.
func (m *tieModel) checkStates(t *rapid.T) {
	shows := map[tie.Stage]agentapi.VMState{
		tie.StageNone: agentapi.VMRunning, tie.StageShutdown: agentapi.VMStopping,
		tie.StageTerm: agentapi.VMStopping, tie.StageKill: agentapi.VMKilling,
	}
	held := !m.asked && m.now < m.leaseUntil
	for _, v := range m.tie.VMs {
		if v.State != shows[v.Stage] {
			t.Fatalf("%d is shown as %s at stage %d", v.PID, v.State, v.Stage)
		}
		if v.Stage != tie.StageNone {
			delete(m.spared, v.Process)
		}
		if m.tie.Terms.Enforce || m.handsOff() {
			continue
		}
		if v.Stage != tie.StageNone {
			t.Fatalf("%d is at stage %d in observe mode", v.PID, v.Stage)
		}
		if m.tie.Phase == agentapi.PhaseDraining && !held && !m.spared[v.Process] {
			t.Fatalf("nobody was told that %d would be stopped", v.PID)
		}
	}
}

// checkBounds: whatever has happened before, from a reason on everything has an end,
// for this agent or for one that takes over now.
func (m *tieModel) checkBounds(t *rapid.T) {
	m.stepNow(t, tie.TermsChanged{Terms: withTerms(func(terms *tie.Terms) { *terms = drawTerms(t); terms.Enforce, terms.ProofOnly = true, false })})
	reason := rapid.SampledFrom([]tie.Input{stopAsked, ownerEnded}).Draw(t, "reason")
	m.stepNow(t, reason)
	limit := m.now.Add(maxGrace + maxTerm)
	if !m.asked {
		limit = max(m.now, m.leaseUntil).Add(maxGrace + maxTerm)
	}
	if m.twin == nil && rapid.Bool().Draw(t, "restart before the end") {
		m.restart(t)
	}
	m.killAll(t, limit)
	m.finish(t)
}

// killAll lets time pass until SIGKILL was sent to every VM process.
func (m *tieModel) killAll(t *rapid.T, limit host.Boottime) {
	for !m.allKilled() {
		at, ok := m.tie.Due()
		if !ok || at > limit {
			t.Fatalf("nothing due before %v (next: %v, %t): %+v", limit, at, ok, m.tie)
		}
		m.now = max(m.now, at)
		m.stepNow(t, ticked)
	}
}

func (m *tieModel) allKilled() bool {
	for _, v := range m.tie.VMs {
		if v.Stage != tie.StageKill {
			return false
		}
	}
	return m.tie.Phase == agentapi.PhaseDraining || m.tie.Phase == agentapi.PhaseDone
}

// finish ends all processes, and tells so.
func (m *tieModel) finish(t *rapid.T) {
	for _, v := range copied(m.tie).VMs {
		m.stepNow(t, tie.VMEnded{Process: v.Process})
	}
	m.dueNow(t)
	m.stepNow(t, tie.Scanned{ID: m.last})
	if m.tie.Phase != agentapi.PhaseDone || m.asked {
		t.Fatalf("nothing is left, and it is not done (stop asked: %t): %+v", m.asked, m.tie)
	}
	m.stepNow(t, ownerEnded)
	m.stepNow(t, tie.Scanned{ID: m.last})
	if !m.tie.Over() {
		t.Fatalf("nothing is left, and it is not over: %+v", m.tie)
	}
}

// dueNow does what a supervisor does when it takes a tie over.
func (m *tieModel) dueNow(t *rapid.T) {
	if at, ok := m.tie.Due(); ok && at <= m.now {
		m.stepNow(t, ticked)
	}
}

func TestTieProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(m.operations())
		m.checkBounds(t)
	})
}

// What the store keeps is enough: a tie that was read from it behaves as the other
// would have.
func TestTieRestoredProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(m.operations())
		twin := restored(m.tie)
		m.twin, m.twinLast = &twin, 0
		m.stepNow(t, ticked)
		operations := m.operations()
		delete(operations, "restart")
		t.Repeat(operations)
		m.checkBounds(t)
	})
}

// stepTwin has the same happen to the tie that was restored.
func (m *tieModel) stepTwin(t *rapid.T, in tie.Input, next tie.Tie, actions []tie.Action) {
	if m.twin == nil {
		return
	}
	if looked, ok := in.(tie.Scanned); ok { // each counts its own
		looked.ID = m.twinLast - min(m.twinLast, m.last-looked.ID)
		in = looked
	}
	twin, done := tie.Step(*m.twin, m.now, in)
	m.twin, m.twinLast = &twin, lastLook(done, m.twinLast)
	if diff := cmp.Diff(next, twin, cmpopts.IgnoreUnexported(tie.Tie{}), cmpopts.IgnoreFields(tie.Tie{}, "Why"), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%T makes of the tie, and of the one that was restored (-tie +restored):\n%s", in, diff)
	}
	if diff := cmp.Diff(showDeeds(actions), showDeeds(done)); diff != "" {
		t.Fatalf("%T has done (-tie +restored):\n%s", in, diff)
	}
}

// showDeeds shows what concerns processes and pods.
func showDeeds(actions []tie.Action) string {
	deeds := slices.DeleteFunc(slices.Clone(actions), func(a tie.Action) bool {
		switch a.(type) {
		case tie.Report, tie.RequestScan:
			return true
		}
		return false
	})
	return showActions(deeds)
}
