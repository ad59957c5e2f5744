package suite

import (
	"strings"
	"sync"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

// noRestart keeps systemd from starting a killed agent before the test wants it.
const noRestart = "/run/systemd/system/mooring-agent.service.d/no-restart.conf"

// killAgent kills the agent and keeps it away until the returned function is
// called.
func (f fixture) killAgent(t *testing.T) (start func()) {
	t.Helper()
	if err := f.PushFrom(t.Context(), strings.NewReader("[Service]\nRestart=no\n"), noRestart, 0o644); err != nil {
		t.Fatal(err)
	}
	f.output(t, "systemctl", "daemon-reload")
	if err := f.agent.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent to be dead", func() bool { return f.agentPid(t) == "0" }, func() string { return f.agentPid(t) })
	var once sync.Once
	return func() {
		t.Helper()
		once.Do(func() {
			f.output(t, "rm", "-f", noRestart)
			f.output(t, "systemctl", "daemon-reload")
			f.startAgent(t)
		})
	}
}

// TestCoreWhatAKilledAgentMissedIsRepaired: one launcher was there when the agent
// died, and one comes while it is away.
func TestCoreWhatAKilledAgentMissedIsRepaired(t *testing.T) {
	claim(t, "Agent killed; a launcher does not require it")
	outcome(t, slipped)
	f := setUp(t)
	annotations := map[string]string{api.RequiresLockKey: "true", api.ValueKey: "1Gi"}
	before := launcher(annotations)
	first := f.run(t, before, cri.Container{MemoryLimit: gib})
	start := f.killAgent(t)
	defer start()
	meanwhile := launcher(annotations)
	second := f.run(t, meanwhile, cri.Container{MemoryLimit: gib})
	if got := f.memlock(t, second); got != both(8*mib) {
		t.Fatalf("it started with %s although nobody was there to give it more", got)
	}
	if got := f.memlock(t, first); got != both(2*gib) {
		t.Errorf("with its agent dead the first launcher has %s", got)
	}
	start()
	f.isRepaired(t, meanwhile, second, both(2*gib), 0) // a new agent counts from 0
	f.awaitSetting(t, before, agentapi.MemlockSetting, agentapi.StatusApplied)
}
