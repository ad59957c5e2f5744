package suite

import (
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/plugin"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

// hangAgent stops the agent with SIGSTOP. The returned function continues it.
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

// NRI before 0.12.4 has no FailurePolicy. It closes the connection of a plugin that does not
// answer in time, and creates the container without the plugin. It does so even for a container
// that requires the plugin, because the plugin was connected at the start of the request. The
// agent must repair that launcher as soon as it continues.
func TestCoreHungAgent(t *testing.T) {
	for name, annotations := range map[string]map[string]string{
		"requires it":         {plugin.RequiredPluginsAnnotation: `["mooring"]`},
		"does not require it": {},
	} {
		t.Run(name, func(t *testing.T) {
			claim(t, "Agent hangs; a launcher "+name)
			f := setUp(t)
			p := launcher(with(annotations, map[string]string{api.RequiresLockKey: "true",
				api.ValueKey: "1Gi"}))
			// before the hang, so that CreateContainer is the unanswered request
			s := f.sandbox(t, p)
			connections, repairs := f.synchronizations(t), f.repairs(t)
			i, err := f.runWhileHung(t, s)
			f.awaitReconnect(t, connections)
			if f.runtime(t).features(t).failurePolicy {
				f.checkTimeoutRefusal(t, err)
				return
			}
			if err != nil {
				t.Fatalf("the runtime has no FailurePolicy, but the launcher was refused: %v", err)
			}
			f.awaitRepair(t, p, i, both(2*gib), repairs)
			outcome(t, slipped)
		})
	}
}

// checkTimeoutRefusal checks the error of the unanswered request.
func (f fixture) checkTimeoutRefusal(t *testing.T, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "mooring") {
		t.Fatalf("error %v, want a refusal because of the agent's timeout", err)
	}
	outcome(t, refused)
}

// runWhileHung runs a launcher while the agent hangs. After it, plain pods still start. A
// runtime with a validator refuses further launchers that require the plugin.
func (f fixture) runWhileHung(t *testing.T, s *cri.Sandbox) (*cri.Instance, error) {
	t.Helper()
	resume := f.hangAgent(t)
	defer resume()
	i, err := s.Run(t.Context(), cri.Container{Name: "compute", MemoryLimit: gib})
	if got := f.memlock(t, f.run(t, plain(), cri.Container{MemoryLimit: gib})); got != both(8*mib) {
		t.Errorf("the plain pod has %s", got)
	}
	next := launcher(map[string]string{api.RequiresLockKey: "true",
		plugin.RequiredPluginsAnnotation: `["mooring"]`})
	f.createWithoutAgent(t, next)
	return i, err
}

// awaitRepair waits for the repair, and for its report as setting, event and metric.
func (f fixture) awaitRepair(t *testing.T, p cri.Pod, i *cri.Instance, want string,
	repairsBefore float64) {
	t.Helper()
	f.awaitSetting(t, p, agentapi.MemlockSetting, agentapi.StatusRepaired)
	if got := f.memlock(t, i); got != want {
		t.Errorf("the kernel has %s, want %s", got, want)
	}
	f.awaitEvent(t, p, agentapi.ReasonLimitRepaired)
	if got := f.repairs(t); got <= repairsBefore {
		t.Errorf("the metric still counts %v repairs", got)
	}
}

func (f fixture) repairs(t *testing.T) float64 {
	t.Helper()
	return f.count(t, `mooring_events_total{reason="LimitRepaired"`)
}
