package coordinator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/coordinator"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// busyAgent is an agent that rejects the first final reports.
type busyAgent struct {
	*agent
	refuses int
}

func (b *busyAgent) Report(ctx context.Context, r podapi.Report) error {
	if r.State != podapi.StateResizing && b.refuses > 0 {
		b.refuses--
		return resize.ErrAgent
	}
	return b.agent.Report(ctx, r)
}

// The shim repeats a final report until the agent is back.
func TestReportRetry(t *testing.T) {
	away := func(c *coordinator.Config) {
		c.Agent = &busyAgent{agent: c.Agent.(*agent), refuses: 3}
	}
	inBubble(t, away, func(t *testing.T, r *rig) {
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 3 })
		time.Sleep(4 * time.Second)
		if done := r.agent.lastReport(t, podapi.StateDone); done.Generation != 2 ||
			len(r.agent.reportedStates()) != 3 {
			t.Errorf("reports %+v, want each final report", r.agent.allReports())
		}
	})
}

// Reports show the plan before the first step, and each finished step. The final report repeats all
// of it.
func TestProgress(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{Late: true})
		r.setDesired(func(w *podapi.Desired) { w.VCPUs, w.Memory = 3, 2*gi })
		time.Sleep(time.Second)
		first := r.agent.allReports()[1]
		if first.State != podapi.StateResizing || first.Generation != 2 || len(first.Plan) < 3 ||
			len(first.Steps) != 0 {
			t.Errorf("first report %+v, want the plan", first)
		}
		now := r.agent.lastReport(t, podapi.StateResizing)
		if len(now.Steps) != 1 || now.Steps[0].Description != first.Plan[0] || now.Actual != nil ||
			!slices.Equal(now.Plan, first.Plan) {
			t.Errorf("report %+v before the guest answers, want the plan and one step", now)
		}
		r.AnswerPending()
		r.SetGuest(virttest.Guest{})
		time.Sleep(time.Minute)
		done := r.agent.lastReport(t, podapi.StateDone)
		if !slices.Equal(done.Plan, first.Plan) || len(done.Steps) != len(done.Plan) {
			t.Errorf("final report %+v, want plan and steps", done)
		}
	})
}

// Reports show rollback steps, and still the plan.
func TestRollbackProgress(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{KeepVCPUsOffline: true})
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		time.Sleep(5 * time.Minute)
		failed := r.agent.lastReport(t, podapi.StateFailed)
		before := r.agent.allReports()[len(r.agent.allReports())-2]
		if n := len(before.Steps); before.State != podapi.StateResizing || n == 0 ||
			!before.Steps[n-1].Rollback || n != len(failed.Steps) {
			t.Errorf("last progress report %+v, want a rollback step", before)
		}
		if !slices.Equal(failed.Plan, before.Plan) || len(failed.Plan) == 0 {
			t.Errorf("final report %+v, want the plan", failed)
		}
	})
}

// unresponsiveAgent is an agent that does not answer progress reports.
type unresponsiveAgent struct{ *agent }

func (d unresponsiveAgent) Report(ctx context.Context, r podapi.Report) error {
	if r.State == podapi.StateResizing {
		<-ctx.Done()
		return ctx.Err()
	}
	return d.agent.Report(ctx, r)
}

// A resize waits only a moment for each progress report.
func TestProgressTimeout(t *testing.T) {
	hangs := func(c *coordinator.Config) { c.Agent = unresponsiveAgent{c.Agent.(*agent)} }
	inBubble(t, hangs, func(t *testing.T, r *rig) {
		r.setDesired(func(w *podapi.Desired) { w.VCPUs, w.Memory = 3, 2*gi })
		time.Sleep(10 * time.Second)
		if done := r.agent.lastReport(t, podapi.StateDone); done.Generation != 2 {
			t.Errorf("report %+v", done)
		}
	})
}

// The shim shortens a report that is too long.
func TestLongReport(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		const dimms, size = 40, uint64(128 * mi)
		r.Set(func(s *virt.State) {
			s.Memory.Slots, s.Memory.Devices = dimms, nil
			for slot := range dimms {
				s.Memory.Devices = append(s.Memory.Devices, virt.MemoryDevice{
					Alias: fmt.Sprintf("dimm%0200d", slot), Model: virt.DIMM, Size: size,
				})
			}
		})
		r.setDesired(func(w *podapi.Desired) { w.Memory, w.Limits.Memory = gi, 8*gi })
		time.Sleep(time.Minute)
		done := r.agent.lastReport(t, podapi.StateDone)
		if done.Generation != 2 || len(done.Steps) < dimms || len(done.Plan) < dimms ||
			done.Actual == nil || done.Actual.Memory != uint64(gi) {
			t.Errorf("%d steps of %d, report %+v", len(done.Steps), len(done.Plan), done)
		}
		if !slices.ContainsFunc(done.Plan, func(line string) bool {
			return strings.HasSuffix(line, "...")
		}) {
			t.Errorf("plan %q: want long lines cut", done.Plan)
		}
	})
}

// A retry reports no progress, unless the desired size changes during it.
func TestProgressOfNewTarget(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.setDesired(func(w *podapi.Desired) { w.Memory = gi + 256*mi })
		time.Sleep(time.Second) // the guest has booted
		r.SetGuest(virttest.Guest{Late: true})
		r.setDesired(func(w *podapi.Desired) { w.Memory = gi + 512*mi })
		time.Sleep(70 * time.Second) // a minute is the guest's timeout
		r.agent.lastReport(t, podapi.StateFailed)
		reported, calls := len(r.agent.allReports()), len(r.Calls())
		time.Sleep(15 * time.Second)
		if now := r.agent.allReports(); len(now) != reported || len(r.Calls()) == calls {
			t.Errorf("calls %q, new reports %+v, want another attempt without reports", r.Calls(),
				now[reported:])
		}
		r.setDesired(func(w *podapi.Desired) { w.Memory = 2 * gi })
		r.SetGuest(virttest.Guest{})
		r.AnswerPending()
		time.Sleep(time.Minute)
		started := func(p podapi.Report) bool {
			return p.State == podapi.StateResizing && p.Generation == 4
		}
		if now := r.agent.allReports(); !slices.ContainsFunc(now[reported:], started) {
			t.Errorf("reports %+v, want the plan for 2Gi", now[reported:])
		}
		r.agent.lastReport(t, podapi.StateDone)
	})
}
