package resize_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

// rig is a model with a runner.
type rig struct {
	*resize.Runner
	m       *model
	journal *memoryJournal
	desired target.Target
}

func newRig(m *model) *rig {
	j := &memoryJournal{calls: &m.calls}
	r := &rig{m: m.withLimits(), journal: j}
	r.Runner = &resize.Runner{
		Domain:  m,
		Node:    agent{m},
		Journal: j,
		Policy:  resize.Policy{Shrink: true, Balloon: true},

		Overhead: m.overheadFunc,
	}
	return r
}

// run runs to a target, and checks that the journal has the same report.
func (r *rig) run(t *testing.T, w target.Target) (resize.Report, error) {
	t.Helper()
	r.desired, r.m.node.desiredLimit = w, w.Limit
	report, err := r.Run(context.Background(), func() target.Target { return r.desired })
	if rec, lost := r.journal.Load(); lost == nil && rec.Phase == resize.Ended &&
		rec.Target.Generation == w.Generation { // a run without steps has no record
		if diff := cmp.Diff(report.Error, rec.Report.Error); diff != "" {
			t.Errorf("the journal has another report\n%s", diff)
		}
	}
	return report, err
}

// stepLog has a line per step: "+" is confirmed, "-" is not, "<" is a rollback.
func stepLog(r resize.Report) string {
	var lines []string
	for _, s := range r.Steps {
		mark := "+"
		if s.Error != "" {
			mark = "-"
		}
		if s.Rollback {
			mark = "<" + mark
		}
		lines = append(lines, mark+" "+s.Description)
	}
	return strings.Join(lines, "\n")
}

func TestRunScenarios(t *testing.T) {
	for _, c := range []struct {
		name   string
		m      func(t *testing.T) *model
		memory uint64
		vcpus  int
		err    string // "": no error
		want   string
		after  uint64 // memory
	}{
		{
			"grow",
			func(t *testing.T) *model { return vm(t).virtioMem(2*gi, 0) },
			2 * gi,
			2,
			"",
			"+ wait until memory.max of pod and container is at least 2132Mi\n+ resize memory " +
				"device virtiomem1 from 0 to 1Gi",
			2 * gi,
		},
		{
			"a DIMM like an existing one",
			func(t *testing.T) *model {
				m := vm(t).dimm(512 * mi)
				m.state.Memory.Cells = 1
				return m
			},
			2 * gi,
			2,
			"",
			"+ wait until memory.max of pod and container is at least 2132Mi\n+ plug a DIMM of " +
				"512Mi into NUMA cell 0",
			2 * gi,
		},
		{
			"a vCPU that the guest took offline stays offline",
			func(t *testing.T) *model {
				m := vm(t)
				m.state.VCPUs.Plugged, m.guest.offline = 4, 1
				return m
			},
			gi,
			6,
			"",
			"+ wait until memory.max of pod and container is at least 1138Mi\n+ change the " +
				"number of vCPUs from 4 to 6",
			gi,
		},
		{
			"a guest that takes no memory",
			func(t *testing.T) *model {
				m := vm(t).virtioMem(2*gi, 0)
				m.guest.refuseTake = true
				return m
			},
			2 * gi,
			2,
			"not confirmed within 1m0s: memory device virtiomem1 has 0, requested are 1Gi",
			"+ wait until memory.max of pod and container is at least 2132Mi\n- resize memory " +
				"device virtiomem1 from 0 to 1Gi\n" +
				"<+ keep memory device virtiomem1 at its current size",
			gi,
		},
		{
			"a guest that takes a part and releases no memory",
			func(t *testing.T) *model {
				m := vm(t).virtioMem(2*gi, 0)
				m.guest.portionLeft = 512 * mi
				return m
			},
			2 * gi,
			2,
			"the rollback is incomplete",
			"+ wait until memory.max of pod and container is at least 2132Mi\n- resize memory " +
				"device virtiomem1 from 0 to 1Gi\n" +
				"<- resize memory device virtiomem1 from 512Mi to 0",
			gi + 512*mi,
		},
		{
			"a guest that releases a part keeps the rest",
			func(t *testing.T) *model {
				m := vm(t).virtioMem(2*gi, gi)
				m.guest.portionLeft = 256 * mi
				return m
			},
			gi,
			2,
			"not confirmed within 2m0s: memory device virtiomem1 has 768Mi",
			"- resize memory device virtiomem1 from 1Gi to 0\n<+ keep memory device virtiomem1 " +
				"at its current size",
			gi + 768*mi,
		},
		{
			"a DIMM that stays",
			func(t *testing.T) *model {
				m := vm(t).dimm(256 * mi).passthrough()
				m.guest.refuseGive = true
				return m
			},
			gi,
			2,
			"the guest has not released dimm1",
			"- unplug dimm1, a DIMM of 256Mi",
			gi + 256*mi,
		},
		{
			"a vCPU that the guest does not use",
			func(t *testing.T) *model {
				m := vm(t)
				m.guest.refuseTake = true
				return m
			},
			gi,
			4,
			"the guest uses 2 of its 4 vCPUs",
			"+ wait until memory.max of pod and container is at least 1122Mi\n- change the " +
				"number of vCPUs from 2 to 4\n<+ change the number of vCPUs from 4 to 2",
			gi,
		},
		{
			"a failed unplug prevents all later steps",
			func(t *testing.T) *model {
				m := vm(t).virtioMem(2*gi, 0)
				m.guest.refuseGive = true
				return m
			},
			2 * gi,
			1,
			"not confirmed by the guest",
			"+ wait until memory.max of pod and container is at least 2124Mi\n- change the " +
				"number of vCPUs from 2 to 1",
			gi,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(c.m(t))
			report, err := r.run(t, r.m.target(c.memory, c.vcpus))
			if (err == nil) != (c.err == "") ||
				err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got error %v, want %q", c.name, err, c.err)
			}
			if diff := cmp.Diff(c.want, stepLog(report)); diff != "" {
				t.Errorf("%s (-want +got)\n%s", c.name, diff)
			}
			if report.Actual == nil || report.Actual.Memory != c.after ||
				report.TargetReached != (c.err == "") {
				t.Errorf("%s: %+v", c.name, report.Actual)
			}
			need := r.m.target(c.memory, c.vcpus).MemoryRequirement()
			if c.err == "" && r.m.node.requirement != need || r.m.node.migrationsHeld {
				t.Errorf(
					"%s: memory requirement %d, want %d; migrations blocked: %v", c.name,
					r.m.node.requirement, need, r.m.node.migrationsHeld,
				)
			}
		})
	}
}

// Kubelet neither raises nor lowers memory.max.
func TestIdleKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, 512*mi))
		w := r.m.target(2*gi, 2)
		r.desired = w
		report, err := r.Run(context.Background(), func() target.Target { return w })
		if err == nil || !strings.Contains(err.Error(), "want at least 2132Mi") ||
			report.Actual.Memory != gi+512*mi ||
			len(report.Steps) != 1 {
			t.Errorf("got %v\n%s", err, stepLog(report))
		}
		w = r.m.target(gi, 2)
		report, err = r.Run(context.Background(), func() target.Target { return w })
		if err == nil || !report.TargetReached || report.Actual.Memory != gi ||
			!strings.Contains(
				stepLog(report), "- wait until memory.max of the container is at most 1106Mi",
			) {
			t.Errorf("got %v, %+v\n%s", err, report.Actual, stepLog(report))
		}
	})
}

// If the target changes during a step, the step finishes and the runner plans anew.
func TestTargetChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, 0))
		r.m.afterChange = func() {
			r.desired = r.m.target(gi+512*mi, 3)
			r.desired.Generation, r.m.node.desiredLimit = 2, r.desired.Limit
		}
		report, err := r.run(t, r.m.target(2*gi, 4))
		want := "+ wait until memory.max of pod and container is at least 2148Mi\n" +
			"+ resize memory device virtiomem1 from 0 to 1Gi\n" +
			"+ wait until memory.max of pod and container is at least 1627Mi\n" +
			"+ resize memory device virtiomem1 from 1Gi to 512Mi\n" +
			"+ change the number of vCPUs from 2 to 3\n" +
			"+ wait until memory.max of the container is at most 1627Mi\n"
		if diff := cmp.Diff(want, stepLog(report)+"\n"); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if err != nil || report.Target.Generation != 2 || report.Actual.Memory != gi+512*mi ||
			report.Actual.VCPUs != 3 {
			t.Errorf("got %v, %+v\n%s", err, report.Actual, stepLog(report))
		}
	})
}

// If the target changes during the wait for memory.max, the wait ends.
func TestTargetChangesWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, 0))
		w := r.m.target(2*gi, 2)
		later := r.m.target(gi, 2)
		later.Generation, r.m.node.desiredLimit = 2, later.Limit // kubelet raises no limit
		started := time.Now()
		report, err := r.Run(context.Background(), func() target.Target {
			if time.Since(started) > 10*time.Second {
				return later
			}
			return w
		})
		if err != nil || report.Target.Generation != 2 || !report.TargetReached ||
			time.Since(started) > time.Minute {
			t.Errorf("got %v after %s, %+v", err, time.Since(started), report)
		}
	})
}

func TestTargetChangesAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, 0))
		r.m.afterChange = func() {
			r.desired = r.m.target(gi+512*mi, 2)
			r.desired.Generation, r.m.node.desiredLimit = 2, r.desired.Limit
		}
		report, err := r.run(t, r.m.target(2*gi, 2))
		if err != nil || report.Target.Generation != 2 || report.Actual.Memory != gi+512*mi {
			t.Errorf("got %v, %+v\n%s", err, report.Actual, stepLog(report))
		}
	})
}

// A migration stops all changes without a rollback. The journal keeps the run.
func TestMigrationSuspendsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, 0))
		r.m.guest.lag = 3
		r.m.afterChange = func() { r.m.state.Migrating = true }
		report, err := r.run(t, r.m.target(2*gi, 2))
		if !errors.Is(err, resize.ErrMigrating) || r.m.state.Memory.Devices[0].Requested != gi {
			t.Fatalf("got %v\n%s", err, stepLog(report))
		}
		r.m.state.Migrating, r.m.afterChange = false, nil
		report, ok, err := r.Recover(
			context.Background(), func() target.Target { return r.desired },
		)
		if !ok || err != nil || report.Actual.Memory != 2*gi {
			t.Errorf("recovered: %v, %v, %+v", ok, err, report)
		}
	})
}

// A vCPU that the guest took offline counts as plugged.
func TestOfflineVCPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := vm(t).withLimits()
		m.state.VCPUs.Plugged, m.state.VCPUs.Online = 4, 3
		m.guest.refuseTake = true
		plan, err := resize.MakePlan(
			observe(t, m), target.Target{Size: api.Size{VCPUs: 4}}, resize.Policy{},
		)
		if err != nil || len(plan.Steps) > 0 {
			t.Errorf("got %v, %v", descriptions(plan.Steps), err)
		}
	})
}

// The run ends at once if the domain is gone.
func TestDomainGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, 0))
		r.m.calls.faults = map[int]fault{0: refuseBefore}
		started := time.Now()
		report, err := r.run(t, r.m.target(2*gi, 2))
		if !errors.Is(err, errFault) || report.Actual != nil || time.Since(started) > 0 {
			t.Errorf("got %v, %+v", err, report)
		}
		r.m.calls.faults = nil
		r.m.state.Phase = virt.ShutOff
		_, err = r.run(t, r.m.target(2*gi, 2))
		if err == nil || !strings.Contains(err.Error(), "shut off") {
			t.Errorf("got %v", err)
		}
	})
}

// Kubelet lowers a limit at its next attempt. By then the runner has lowered the requirement.
func TestRequirementBeforeKubeletRetries(t *testing.T) {
	for name, m := range map[string]*model{
		"memory was released":    vm(t).virtioMem(2*gi, gi),
		"no memory to release":   vm(t).virtioMem(2*gi, 0),
		"a lock is lowered, too": vm(t).virtioMem(2*gi, gi).passthrough(),
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(m)
			m.node.backoff = 20
			m.node.limits.ContainerMax, m.node.limits.PodMax = 8*gi, 9*gi
			w := r.m.target(gi, 2)
			_, err := r.run(t, w)
			if err != nil || m.node.limits.ContainerMax != w.Limit || m.node.requirement > w.Limit {
				t.Errorf(
					"%s: got %v, limit %d, need %d, want %d", name, err, m.node.limits.ContainerMax,
					m.node.requirement, w.Limit,
				)
			}
		})
	}
}
