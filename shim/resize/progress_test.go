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

// told runs, and returns what was told on the way: how many steps were planned and done.
func (r *rig) runWithProgress(t *testing.T, w target.Target) (runWithProgress []string, last resize.Report) {
	t.Helper()
	var before resize.Report
	r.Progress = func(p resize.Report) {
		if n := len(before.Steps); n > len(p.Steps) || !slices.Equal(before.Steps, p.Steps[:n]) || p.Actual != nil {
			t.Errorf("told %+v after %+v: want what was done before, and no end", p, before)
		}
		before = p
		runWithProgress = append(runWithProgress, fmt.Sprintf("%d of %d", len(p.Steps), len(p.Plan)))
	}
	last, _ = r.run(t, w)
	return runWithProgress, last
}

// Each plan is told before its first step, and each step once it is done. The last report
// has all of it.
func TestProgress(t *testing.T) {
	for _, c := range []struct {
		name string
		m    func(*model)
		want []string
	}{
		{"done", func(*model) {}, []string{"0 of 3", "1 of 3", "2 of 3", "3 of 3"}},
		{"undone", func(m *model) { m.guest.refuseTake = true }, []string{"0 of 3", "1 of 3", "2 of 3", "3 of 3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := vm(t).virtioMem(2*gi, 0)
				r := newRig(m)
				c.m(m)
				told, last := r.runWithProgress(t, m.target(2*gi, 4))
				if diff := cmp.Diff(c.want, told); diff != "" {
					t.Errorf("told (-want +got)\n%s", diff)
				}
				if len(last.Plan) != 3 || last.Plan[0] != last.Steps[0].Description || len(last.Steps) != len(told)-1 {
					t.Errorf("in the end: plan %q, steps\n%s", last.Plan, stepLog(last))
				}
			})
		})
	}
}

// Where nothing is to be done there is nothing to tell.
func TestNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t))
		if told, last := r.runWithProgress(t, target.Target{Size: api.Size{VCPUs: 2}}); len(told) > 0 || len(last.Plan) > 0 {
			t.Errorf("told %q, in the end %q", told, last.Plan)
		}
	})
}

// A plan that takes the place of another has what was begun before, too.
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
		if diff := cmp.Diff(last.Plan, done); diff != "" || last.Target.Generation != 2 || last.Error != "" {
			t.Errorf("%s: plan and steps (-plan +steps)\n%s", last.Error, diff)
		}
	})
}
