package resize_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
)

// The guest uses no new vCPU. Wherever the shim dies, the next one rolls the VM back.
func TestKilledRunIsRolledBack(t *testing.T) {
	for _, f := range []fault{killBefore, killAfter} {
		for at := range 90 {
			synctest.Test(t, func(t *testing.T) {
				m := vm(t).passthrough().withLimits()
				m.guest.refuseTake = true
				w := &world{
					t:       t,
					m:       m,
					policy:  resize.Policy{Shrink: true},
					journal: &memoryJournal{calls: &m.calls},
				}
				w.desired = m.target(2*gi, 4)
				w.desired.CPUShares = 2 * defaultShares
				m.node.desiredLimit = w.desired.Limit
				m.calls.faults = map[int]fault{at: f}
				report, dead, err := w.runShim()
				if dead {
					report, _, err = w.runShim()
				}
				want := resize.Actual{
					Memory:   gi,
					Possible: gi,
					VCPUs:    2,
					Online:   2,
					Shares:   defaultShares,
					Lock:     2 * gi,
					Locked:   gi,
				}
				got := resize.Actual{}
				if report.Actual != nil {
					got = *report.Actual
					got.PodMax, got.ContainerMax, got.Period, got.Quota = 0, 0, 0, 0
				}
				if diff := cmp.Diff(want, got); diff != "" || err == nil {
					t.Errorf("%s at call %d: %v\n%s\n%s", f, at, err, diff, stepLog(report))
				}
			})
		}
	}
}

// Started steps are rolled back if the new target is refused.
func TestKilledRunWithRefusedTarget(t *testing.T) {
	for at := range 60 {
		synctest.Test(t, func(t *testing.T) {
			m := vm(t).passthrough().withLimits()
			w := &world{
				t:       t,
				m:       m,
				policy:  resize.Policy{Shrink: true},
				journal: &memoryJournal{calls: &m.calls},
			}
			w.desired = m.target(2*gi, 4)
			m.node.desiredLimit = w.desired.Limit
			m.calls.faults = map[int]fault{at: killAfter}
			if _, dead, _ := w.runShim(); !dead {
				return
			}
			w.desired = m.target(16*gi, 4)
			rec, _ := w.journal.Load()
			_, ok, err := w.runner().Recover(context.Background(), w.targetFunc)
			if ok != (rec.Phase == resize.Running || rec.Phase == resize.RollingBack) ||
				ok && err == nil {
				t.Errorf("at call %d: %v, %v", at, ok, err)
			}
			changed := m.state.Memory.Balloon != gi || m.state.VCPUs.Plugged != 2 ||
				m.node.limits.Lock != 2*gi
			if rec.Phase != resize.Ended && changed {
				t.Errorf("at call %d: not rolled back: %+v", at, m.state)
			}
		})
	}
}

// A started rollback continues, even if the target is possible now.
func TestRollbackContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t))
		r.m.state.VCPUs.Plugged = 4
		r.desired = r.m.target(gi, 4)
		record := resize.Record{
			Domain:  "a-vm",
			Target:  r.desired,
			Phase:   resize.RollingBack,
			Started: 1,
			Steps: resize.Steps{
				resize.SetVCPUs{From: 2, To: 4, Used: 2, Within: time.Second},
			},
		}
		if err := r.journal.Store(record); err != nil {
			t.Fatal(err)
		}
		report, ok, err := r.Recover(
			context.Background(), func() target.Target { return r.desired },
		)
		if !ok || err == nil || err.Error() != "an earlier run failed and was rolled back" ||
			report.Actual.VCPUs != 2 {
			t.Errorf("got %v, %v, %+v", ok, err, report)
		}
	})
}

func TestRecoverRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t))
		r.m.state.VCPUs.Plugged = 4
		wish := func() target.Target { return r.m.target(gi, 2) }
		if _, ok, err := r.Recover(context.Background(), wish); ok || err != nil {
			t.Errorf("an empty journal: %v, %v", ok, err)
		}
		other := resize.Record{
			Domain:  "another-vm",
			Phase:   resize.Running,
			Started: 1,
			Steps:   resize.Steps{resize.SetVCPUs{From: 2, To: 4}},
		}
		if err := r.journal.Store(other); err != nil {
			t.Fatal(err)
		}
		_, ok, err := r.Recover(context.Background(), wish)
		if ok || err == nil || !strings.Contains(err.Error(), "domain another-vm") {
			t.Errorf("record of another domain: %v, %v", ok, err)
		}
		r.journal.text = []byte("{")
		_, ok, err = r.Recover(context.Background(), wish)
		if ok || err == nil || r.m.state.VCPUs.Plugged != 4 {
			t.Errorf("torn record: %v, %v", ok, err)
		}
	})
}

// An unconfirmed step of the old target is no failure of the new target, which is already reached.
func TestStartedStepNotDesired(t *testing.T) {
	for _, begun := range []resize.Step{
		resize.AwaitRaisedLimit{AtLeast: 64 * gi, Within: time.Minute},
		resize.SetVCPUs{From: 2, To: 4, Used: 2, Within: time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(vm(t))
			earlier, now := r.m.target(gi, 4), r.m.target(gi, 2)
			now.Generation = 2
			record := resize.Record{
				Domain:  "a-vm",
				Target:  earlier,
				Phase:   resize.Running,
				Started: 1,
				Steps:   resize.Steps{begun},
			}
			if err := r.journal.Store(record); err != nil {
				t.Fatal(err)
			}
			r.m.node.desiredLimit = now.Limit
			report, ok, err := r.Recover(context.Background(), func() target.Target { return now })
			if !ok || err != nil || report.Target.Generation != 2 || !report.TargetReached ||
				r.m.state.VCPUs.Plugged != 2 {
				t.Errorf("%s: got %v, %v, %+v", begun, ok, err, report)
			}
		})
	}
}

// A restarted agent assigns a new generation to the same size. Unused vCPUs stay a failure.
func TestStartedStepStillDesired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vmIgnoringVCPUs(t))
		r.m.state.VCPUs.Plugged = 4
		w := r.m.target(gi, 4)
		record := resize.Record{
			Domain:  "a-vm",
			Target:  w,
			Phase:   resize.Running,
			Started: 1,
			Steps: resize.Steps{
				resize.SetVCPUs{From: 2, To: 4, Used: 2, Within: time.Minute},
			},
		}
		if err := r.journal.Store(record); err != nil {
			t.Fatal(err)
		}
		w.Generation, r.m.node.desiredLimit = 2, w.Limit
		report, ok, err := r.Recover(context.Background(), func() target.Target { return w })
		if !ok || err == nil || !strings.Contains(err.Error(), "the guest uses 2 of its 4 vCPUs") ||
			r.m.state.VCPUs.Plugged != 2 {
			t.Errorf("got %v, %v, %+v", ok, err, report)
		}
	})
}
