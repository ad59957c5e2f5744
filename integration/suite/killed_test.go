package suite

import (
	"strings"
	"sync"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

// noRestart is a drop-in that keeps systemd from restarting a killed agent.
const noRestart = "/run/systemd/system/mooring-agent.service.d/no-restart.conf"

// killAgent kills the agent and keeps it away. The returned function starts it again.
func (f fixture) killAgent(t *testing.T) (start func()) {
	t.Helper()
	if err := f.PushFrom(t.Context(), strings.NewReader("[Service]\nRestart=no\n"), noRestart,
		0o644); err != nil {
		t.Fatal(err)
	}
	f.output(t, "systemctl", "daemon-reload")
	if err := f.agent.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent to be dead", func() bool { return f.agentPid(t) == "0" },
		func() string { return f.agentPid(t) })
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

// One launcher runs when the agent dies, and one starts while the agent is away.
func TestCoreKilledAgentRepairsLaunchers(t *testing.T) {
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
		t.Fatalf("without an agent, the launcher started with %s", got)
	}
	if got := f.memlock(t, first); got != both(2*gib) {
		t.Errorf("without an agent, the first launcher has %s", got)
	}
	start()
	f.awaitRepair(t, meanwhile, second, both(2*gib), 0) // a new agent starts to count at 0
	f.awaitSetting(t, before, agentapi.MemlockSetting, agentapi.StatusApplied)
}
