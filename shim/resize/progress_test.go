package resize_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
)

// runWithProgress runs, and returns the number of done and planned steps of each progress report.
func (r *rig) runWithProgress(
	t *testing.T,
	w target.Target,
) (reports []string, last resize.Report) {
	t.Helper()
	var before resize.Report
	r.Progress = func(p resize.Report) {
		n := len(before.Steps)
		if n > len(p.Steps) || !slices.Equal(before.Steps, p.Steps[:n]) || p.Actual != nil {
			t.Errorf("progress %+v after %+v: want the earlier steps and no end", p, before)
		}
		before = p
		reports = append(reports, fmt.Sprintf("%d of %d", len(p.Steps), len(p.Plan)))
	}
	last, _ = r.run(t, w)
	return reports, last
}

// There is a report for each plan before its first step, and after each step. The last one has all.
func TestProgress(t *testing.T) {
	for _, c := range []struct {
		name string
		m    func(*model)
		want []string
	}{
		{"done", func(*model) {}, []string{"0 of 3", "1 of 3", "2 of 3", "3 of 3"}},
		{"rolled back", func(m *model) {
			m.guest.refuseTake = true
		}, []string{"0 of 3", "1 of 3", "2 of 3", "3 of 3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := vm(t).virtioMem(2*gi, 0)
				r := newRig(m)
				c.m(m)
				told, last := r.runWithProgress(t, m.target(2*gi, 4))
				if diff := cmp.Diff(c.want, told); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
				if len(last.Plan) != 3 || last.Plan[0] != last.Steps[0].Description ||
					len(last.Steps) != len(told)-1 {
					t.Errorf("last report: plan %q, steps\n%s", last.Plan, stepLog(last))
				}
			})
		})
	}
}

func TestNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t))
		told, last := r.runWithProgress(t, target.Target{Size: api.Size{VCPUs: 2}})
		if len(told) > 0 || len(last.Plan) > 0 {
			t.Errorf("progress %q, last plan %q", told, last.Plan)
		}
	})
}

// A new plan includes the started steps of the old one.
func TestProgressOfNewPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, 0))
		r.m.afterChange = func() {
			r.m.afterChange = nil
			r.desired = r.m.target(gi+512*mi, 2)
			r.desired.Generation, r.m.node.desiredLimit = 2, r.desired.Limit
		}
		_, last := r.runWithProgress(t, r.m.target(2*gi, 2))
		var done []string
		for _, s := range last.Steps {
			done = append(done, s.Description)
		}
		diff := cmp.Diff(last.Plan, done)
		if diff != "" || last.Target.Generation != 2 || last.Error != "" {
			t.Errorf("%s: plan and steps (-plan +steps)\n%s", last.Error, diff)
		}
	})
}
