package coordinator_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/coordinator"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// dryRunAnswer returns the only answer to the dry run of this generation.
func (r *rig) dryRunAnswer(t *testing.T, generation uint64) podapi.Report {
	t.Helper()
	synctest.Wait()
	answers := slices.DeleteFunc(r.agent.dryRunAnswers(),
		func(p podapi.Report) bool { return p.Generation != generation })
	if len(answers) != 1 {
		t.Fatalf("answers %+v to dry run %d, want one", answers, generation)
	}
	return answers[0]
}

// The shim answers each dry run once, also repeated ones. It makes no other change or report.
func TestDryRun(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		for generation := range uint64(3) {
			r.agent.requestDryRun(70+generation, api.Size{VCPUs: 2})
			if p := r.dryRunAnswer(t, 70+generation); p.State != podapi.StatePlanned ||
				len(p.Plan) == 0 {
				t.Errorf("answer %+v, want a plan", p)
			}
		}
		time.Sleep(time.Hour)
		if len(r.agent.dryRunAnswers()) != 3 || len(r.agent.allReports()) != 1 ||
			len(r.Calls()) != 0 {
			t.Errorf("answers %+v, reports %+v, calls %v", r.agent.dryRunAnswers(),
				r.agent.allReports(), r.Calls())
		}
	})
}

// Dry runs and resizes do not affect each other.
func TestDryRunsAndResizes(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.agent.requestDryRun(1, api.Size{VCPUs: 2})
		r.dryRunAnswer(t, 1)
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		r.agent.lastReport(t, podapi.StateDone)
		r.agent.requestDryRun(2, api.Size{VCPUs: 2})
		if p := r.dryRunAnswer(t, 2); p.State != podapi.StatePlanned || len(p.Plan) != 0 {
			t.Errorf("answer %+v, want an empty plan", p)
		}
		if states, want := r.agent.reportedStates(), []podapi.State{podapi.StateDone,
			podapi.StateResizing, podapi.StateDone}; !slices.Equal(states, want) {
			t.Errorf("states %v, want %v", states, want)
		}
	})
}

// The shim answers a dry run at once, and the running resize continues as planned.
func TestDryRunDuringResize(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{Late: true})
		r.setDesired(func(w *podapi.Desired) { w.Memory = 2 * gi })
		before := r.agent.lastReport(t, podapi.StateResizing)
		r.agent.requestDryRun(1, api.Size{VCPUs: 2})
		if p := r.dryRunAnswer(t, 1); p.State != podapi.StatePlanned || len(p.Plan) == 0 {
			t.Errorf("answer %+v, want a plan", p)
		}
		r.AnswerPending()
		time.Sleep(time.Second)
		done := r.agent.lastReport(t, podapi.StateDone)
		if !slices.Equal(done.Plan, before.Plan) || len(done.Steps) != len(done.Plan) {
			t.Errorf("report %+v, want only the plan %q", done, before.Plan)
		}
	})
}

// A dry run is refused like a resize, and is independent of the desired size.
func TestDryRunRefused(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.setDesired(func(w *podapi.Desired) { w.Error = "rubbish" })
		r.agent.requestDryRun(1, api.Size{VCPUs: 9})
		if p := r.dryRunAnswer(t, 1); p.State != podapi.StateRefused ||
			!strings.Contains(p.Error, "vcpus.resize.mooring.dev") {
			t.Errorf("answer %+v", p)
		}
		r.agent.requestDryRun(2, api.Size{VCPUs: 2})
		if p := r.dryRunAnswer(t, 2); p.State != podapi.StatePlanned {
			t.Errorf("answer %+v", p)
		}
		r.hypervisor.Disconnect()
		r.agent.requestDryRun(3, api.Size{VCPUs: 2})
		if p := r.dryRunAnswer(t, 3); p.State != podapi.StateFailed {
			t.Errorf("answer %+v", p)
		}
	})
}

// slowAgent is an agent that takes answers to dry runs slowly.
type slowAgent struct{ *agent }

func (s slowAgent) Report(ctx context.Context, r podapi.Report) error {
	if r.DryRun {
		time.Sleep(5 * time.Second)
	}
	return s.agent.Report(ctx, r)
}

// The shim drops a dry run that the agent has lost meanwhile.
func TestLostDryRun(t *testing.T) {
	inBubble(t, func(c *coordinator.Config) { c.Agent = slowAgent{c.Agent.(*agent)} },
		func(t *testing.T, r *rig) {
			for generation := range uint64(2) {
				r.agent.requestDryRun(1+generation, api.Size{VCPUs: 2})
				synctest.Wait()
			}
			r.setDesired(func(w *podapi.Desired) { w.DryRun = nil })
			time.Sleep(time.Minute)
			if answers := r.agent.dryRunAnswers(); len(answers) != 1 || answers[0].Generation != 1 {
				t.Errorf("answers %+v, want one to the first", answers)
			}
		})
}
