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

// plan is the answer to the dry run of that generation, the only one to it.
func (r *rig) dryRunAnswer(t *testing.T, generation uint64) podapi.Report {
	t.Helper()
	synctest.Wait()
	answers := slices.DeleteFunc(r.agent.dryRunAnswers(), func(p podapi.Report) bool { return p.Generation != generation })
	if len(answers) != 1 {
		t.Fatalf("answers %+v to dry run %d, want one", answers, generation)
	}
	return answers[0]
}

// TestDryRun: each is answered once, also when the same size is asked about twice, and
// nothing is done or reported besides.
func TestDryRun(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		for generation := range uint64(3) {
			r.agent.requestDryRun(70+generation, api.Size{VCPUs: 2})
			if p := r.dryRunAnswer(t, 70+generation); p.State != podapi.StatePlanned || len(p.Plan) == 0 {
				t.Errorf("answer %+v, want a plan", p)
			}
		}
		time.Sleep(time.Hour)
		if len(r.agent.dryRunAnswers()) != 3 || len(r.agent.allReports()) != 1 || len(r.Calls()) != 0 {
			t.Errorf("answers %+v, reports %+v, calls %v", r.agent.dryRunAnswers(), r.agent.allReports(), r.Calls())
		}
	})
}

// TestDryRunsAndResizes: neither has anything to do with the other.
func TestDryRunsAndResizes(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.agent.requestDryRun(1, api.Size{VCPUs: 2})
		r.dryRunAnswer(t, 1)
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		r.agent.lastReport(t, podapi.StateDone)
		r.agent.requestDryRun(2, api.Size{VCPUs: 2})
		if p := r.dryRunAnswer(t, 2); p.State != podapi.StatePlanned || len(p.Plan) != 0 {
			t.Errorf("answer %+v, want nothing left to do", p)
		}
		if states, want := r.agent.reportedStates(), []podapi.State{podapi.StateDone, podapi.StateResizing, podapi.StateDone}; !slices.Equal(states, want) {
			t.Errorf("states %v, want %v", states, want)
		}
	})
}

// TestDryRunWhileResizing: it is answered at once, and the resize goes on as planned.
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
			t.Errorf("report %+v, want the plan %q and no other", done, before.Plan)
		}
	})
}

// TestDryRunRefused: what cannot be is told as it is of a resize, also where what is
// wanted cannot be read.
func TestDryRunRefused(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.setDesired(func(w *podapi.Desired) { w.Error = "rubbish" })
		r.agent.requestDryRun(1, api.Size{VCPUs: 9})
		if p := r.dryRunAnswer(t, 1); p.State != podapi.StateRefused || !strings.Contains(p.Error, "vcpus.resize.mooring.dev") {
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

// slow is an agent that takes its time over answers to dry runs.
type slowAgent struct{ *agent }

func (s slowAgent) Report(ctx context.Context, r podapi.Report) error {
	if r.DryRun {
		time.Sleep(5 * time.Second)
	}
	return s.agent.Report(ctx, r)
}

// TestLostDryRun: of one that the agent has lost meanwhile nobody asks any more.
func TestLostDryRun(t *testing.T) {
	inBubble(t, func(c *coordinator.Config) { c.Agent = slowAgent{c.Agent.(*agent)} }, func(t *testing.T, r *rig) {
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
