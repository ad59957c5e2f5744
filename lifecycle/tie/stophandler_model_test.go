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

// observeHandler records that a stop handler is connected, or until when one may reconnect.
// Repeated disconnects do not extend this time. in is an input about stop handlers.
func (m *model) observeHandler(in tie.Input) {
	left, ok := in.(tie.StopHandlerDisconnected)
	switch until := m.now.Add(left.Wait); {
	case !ok:
		m.stopHandler = tie.StopHandler{Connected: true}
	case m.stopHandler.Connected || until < m.stopHandler.AwaitUntil:
		m.stopHandler = tie.StopHandler{AwaitUntil: until}
	}
}

// expectsHandler reports whether a stop handler is connected or may reconnect.
func (m *model) expectsHandler() bool {
	return m.stopHandler.Connected || m.now < m.stopHandler.AwaitUntil
}

// runsSince returns the start of a VM process on which a step acts: now for a VM process that the
// step added.
func (m *model) runsSince(before tie.Tie, v tie.VM) host.Boottime {
	if was := vmOf(before, v.Process); was != nil && was.Stage == tie.StageNone {
		return was.Since
	}
	return m.now
}

// canAskGuest reports whether the stop handler can shut down the guest of a VM process. The process
// must have started before the stop began (tie.Since) and before the launcher ended.
func (m *model) canAskGuest(before tie.Tie, v tie.VM) bool {
	since := m.runsSince(before, v)
	early := since <= m.tie.Since && (!m.launcherGone || since <= m.goneAt)
	draining := m.tie.Phase == agentapi.PhaseDraining
	return draining && early && m.expectsHandler() && !m.tie.Terms.ProofOnly
}

// checkPodShutdown checks a request to the pod's stop handler to shut down a VM process. Each
// process gets at most one request, and none if it started after the launcher ended.
func (m *model) checkPodShutdown(t *rapid.T, before tie.Tie, v tie.VM) {
	if !m.expectsHandler() {
		t.Fatalf("a request to the pod for %d without a stop handler", v.PID)
	}
	if m.tie.Terms.ProofOnly {
		t.Fatalf("a request to the pod for %d under the terms of the fence, which has no pod "+
			"socket", v.PID)
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
