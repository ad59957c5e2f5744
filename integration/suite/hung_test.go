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

// TestHungAgent: NRI before 0.12.4 knows no FailurePolicy. It closes the
// connection of a plugin that does not answer in time and creates the container
// without it, even one that requires the plugin, which was there when the request
// began. The agent must find that launcher as soon as it can.
func TestHungAgent(t *testing.T) {
	for name, annotations := range map[string]map[string]string{
		"launcher that requires the plugin": {plugin.RequiredPluginsAnnotation: `["mooring"]`},
		"launcher that does not":            {},
	} {
		t.Run(name, func(t *testing.T) {
			f := setUp(t)
			p := launcher(with(annotations, map[string]string{api.RequiresLockKey: "true", api.ValueKey: "1Gi"}))
			s := f.sandbox(t, p) // before, so that CreateContainer is what the agent does not answer
			connections, repairs := f.synchronizations(t), f.repairs(t)
			i, err := f.runWhileHung(t, s)
			f.awaitReconnect(t, connections)
			if err != nil {
				t.Logf("the launcher was refused: %v", err)
				return
			}
			t.Log("the launcher was created without its limit")
			f.isRepaired(t, p, i, both(2*gib), repairs)
		})
	}
}

// runWhileHung runs the launcher that meets the hanging agent. After it plain
// pods start, and launchers that require the plugin are refused.
func (f fixture) runWhileHung(t *testing.T, s *cri.Sandbox) (*cri.Instance, error) {
	t.Helper()
	resume := f.hangAgent(t)
	defer resume()
	i, err := s.Run(t.Context(), cri.Container{Name: "compute", MemoryLimit: gib})
	if got := f.memlock(t, f.run(t, plain(), cri.Container{MemoryLimit: gib})); got != both(8*mib) {
		t.Errorf("the plain pod has %s", got)
	}
	next := launcher(map[string]string{api.RequiresLockKey: "true", plugin.RequiredPluginsAnnotation: `["mooring"]`})
	if msg := f.refused(t, next, cri.Container{MemoryLimit: gib}); !strings.Contains(msg, `required plugin "mooring" not present`) {
		t.Errorf("the next launcher was refused for another reason: %s", msg)
	}
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
