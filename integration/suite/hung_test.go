package suite

import (
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/plugin"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

// hangAgent makes the agent hang until the returned function is called.
func (f fixture) hangAgent(t *testing.T) (resume func()) {
	t.Helper()
	if err := f.agent.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := f.agent.Resume(t.Context()); err != nil {
			t.Errorf("resuming the agent: %v", err)
		}
	}
}

// TestCoreHungAgent: NRI before 0.12.4 knows no FailurePolicy. It closes the
// connection of a plugin that does not answer in time and creates the container
// without it, even one that requires the plugin, which was there when the request
// began. The agent must find that launcher as soon as it can.
func TestCoreHungAgent(t *testing.T) {
	for name, annotations := range map[string]map[string]string{
		"requires it":         {plugin.RequiredPluginsAnnotation: `["mooring"]`},
		"does not require it": {},
	} {
		t.Run(name, func(t *testing.T) {
			claim(t, "Agent hangs; a launcher "+name)
			f := setUp(t)
			p := launcher(with(annotations, map[string]string{api.RequiresLockKey: "true", api.ValueKey: "1Gi"}))
			s := f.sandbox(t, p) // before, so that CreateContainer is what the agent does not answer
			connections, repairs := f.synchronizations(t), f.repairs(t)
			i, err := f.runWhileHung(t, s)
			f.awaitReconnect(t, connections)
			if f.runtime(t).features(t).failurePolicy {
				f.timedOut(t, err)
				return
			}
			if err != nil {
				t.Fatalf("the runtime knows no FailurePolicy, and the launcher was refused: %v", err)
			}
			f.isRepaired(t, p, i, both(2*gib), repairs)
			outcome(t, slipped)
		})
	}
}

// timedOut is for the request that was left unanswered.
func (f fixture) timedOut(t *testing.T, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "mooring") {
		t.Fatalf("the launcher ended with %v, want it refused because the agent did not answer", err)
	}
	outcome(t, refused)
}

// runWhileHung runs the launcher that meets the hanging agent. After it plain
// pods start, and launchers that require the plugin are held back, where the
// runtime can.
func (f fixture) runWhileHung(t *testing.T, s *cri.Sandbox) (*cri.Instance, error) {
	t.Helper()
	resume := f.hangAgent(t)
	defer resume()
	i, err := s.Run(t.Context(), cri.Container{Name: "compute", MemoryLimit: gib})
	if got := f.memlock(t, f.run(t, plain(), cri.Container{MemoryLimit: gib})); got != both(8*mib) {
		t.Errorf("the plain pod has %s", got)
	}
	next := launcher(map[string]string{api.RequiresLockKey: "true", plugin.RequiredPluginsAnnotation: `["mooring"]`})
	f.heldBack(t, next)
	return i, err
}

// isRepaired waits for the repair, and for it to be told everywhere.
func (f fixture) isRepaired(t *testing.T, p cri.Pod, i *cri.Instance, want string, repairsBefore float64) {
	t.Helper()
	f.awaitSetting(t, p, agentapi.MemlockSetting, agentapi.StatusRepaired)
	if got := f.memlock(t, i); got != want {
		t.Errorf("the kernel has %s, want %s", got, want)
	}
	f.awaitEvent(t, p, agentapi.ReasonLimitRepaired)
	if got := f.repairs(t); got <= repairsBefore {
		t.Errorf("%v repairs are counted, as before", got)
	}
}

func (f fixture) repairs(t *testing.T) float64 {
	t.Helper()
	return f.count(t, `mooring_events_total{reason="LimitRepaired"`)
}
