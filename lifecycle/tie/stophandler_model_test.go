package tie_test

import (
	"time"

	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func (m *tieModel) takerLeaves(t *rapid.T) {
	m.step(t, tie.StopHandlerDisconnected{Wait: drawSeconds(t, 0, 20*time.Second, "wait for the taker")})
}

// rememberTaker takes in who takes requests, and for how long one who has left may come
// back.
func (m *tieModel) rememberTaker(in tie.Input) {
	left, ok := in.(tie.StopHandlerDisconnected)
	switch until := m.now.Add(left.Wait); {
	case !ok:
		m.taker = tie.StopHandler{Connected: true}
	case m.taker.Connected || until < m.taker.AwaitUntil:
		m.taker = tie.StopHandler{AwaitUntil: until}
	}
}

// expected is set while somebody in the pod takes requests, or may come back.
func (m *tieModel) expected() bool { return m.taker.Connected || m.now < m.taker.AwaitUntil }

// runsSince is since when a VM process runs of which something is done now.
func (m *tieModel) runsSince(before tie.Tie, v tie.VM) host.Boottime {
	if was := vmOf(before, v.Process); was != nil && was.Stage == tie.StageNone {
		return was.Since
	}
	return m.now
}

// couldAsk is set where the pod could have been asked about a VM process that ran before
// anything had to end.
func (m *tieModel) couldAsk(before tie.Tie, v tie.VM) bool {
	since := m.runsSince(before, v)
	early := since <= m.tie.Since && (!m.gone || since <= m.goneAt)
	return m.tie.Phase == agentapi.PhaseDraining && early && m.expected() && !m.tie.Terms.ProofOnly
}

// checkAskPod: only who listens is asked, and once; never for what comes when everything
// has to end.
func (m *tieModel) checkAskPod(t *rapid.T, before tie.Tie, v tie.VM) {
	if !m.expected() {
		t.Fatalf("the pod is asked to end %d, and nobody there takes that", v.PID)
	}
	if m.tie.Terms.ProofOnly {
		t.Fatalf("the pod is asked to end %d by one who has no sockets", v.PID)
	}
	if m.ends[v.Process] != nil {
		t.Fatalf("the pod is asked again to end %d", v.PID)
	}
	if m.gone && m.runsSince(before, v) > m.goneAt {
		t.Fatalf("the pod is asked to end %d, which started after the launcher's end", v.PID)
	}
	if len(m.tie.VMs) > 1 && m.tie.Phase != agentapi.PhaseDraining {
		t.Fatalf("the pod is asked to end %d, which would end others", v.PID)
	}
}
