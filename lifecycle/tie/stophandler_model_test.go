package tie_test

import (
	"time"

	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func (m *model) disconnectHandler(t *rapid.T) {
	m.step(t, tie.StopHandlerDisconnected{Wait: drawSeconds(t, 0, 20*time.Second, "wait")})
}

// observeHandler records the connected stop handler, and the wait after its departure.
func (m *model) observeHandler(in tie.Input) {
	left, ok := in.(tie.StopHandlerDisconnected)
	switch until := m.now.Add(left.Wait); {
	case !ok:
		m.stopHandler = tie.StopHandler{Connected: true}
	case m.stopHandler.Connected || until < m.stopHandler.AwaitUntil:
		m.stopHandler = tie.StopHandler{AwaitUntil: until}
	}
}

// expectsHandler is set while a stop handler is connected or may come back.
func (m *model) expectsHandler() bool {
	return m.stopHandler.Connected || m.now < m.stopHandler.AwaitUntil
}

// runsSince returns the start of a VM process on which a step acts. A process that came with this
// step starts now.
func (m *model) runsSince(before tie.Tie, v tie.VM) host.Boottime {
	if was := vmOf(before, v.Process); was != nil && was.Stage == tie.StageNone {
		return was.Since
	}
	return m.now
}

// canAskGuest is set if the pod's stop handler could have asked the guest of a VM process that ran
// before the stop began.
func (m *model) canAskGuest(before tie.Tie, v tie.VM) bool {
	since := m.runsSince(before, v)
	early := since <= m.tie.Since && (!m.launcherGone || since <= m.goneAt)
	draining := m.tie.Phase == agentapi.PhaseDraining
	return draining && early && m.expectsHandler() && !m.tie.Terms.ProofOnly
}

// checkPodShutdown: only a stop handler gets a request, and only one. It gets none for a VM process
// that started after the stop began.
func (m *model) checkPodShutdown(t *rapid.T, before tie.Tie, v tie.VM) {
	if !m.expectsHandler() {
		t.Fatalf("a request to the pod for %d without a stop handler", v.PID)
	}
	if m.tie.Terms.ProofOnly {
		t.Fatalf("a request to the pod for %d from the fence, which serves no sockets", v.PID)
	}
	if m.stops[v.Process] != nil {
		t.Fatalf("a second request to the pod for %d", v.PID)
	}
	if m.launcherGone && m.runsSince(before, v) > m.goneAt {
		t.Fatalf("a request to the pod for %d, which started after the end of the launcher", v.PID)
	}
	if len(m.tie.VMs) > 1 && m.tie.Phase != agentapi.PhaseDraining {
		t.Fatalf("a request to the pod for %d, which would also end other VM processes", v.PID)
	}
}
