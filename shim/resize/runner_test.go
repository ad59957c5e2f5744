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
	r.Runner = &resize.Runner{Domain: m, Node: agent{m}, Journal: j, Policy: resize.Policy{Shrink: true, Balloon: true}}
	return r
}

// run runs towards that size, and checks that the journal has the same report.
func (r *rig) run(t *testing.T, w target.Target) (resize.Report, error) {
	t.Helper()
	r.desired, r.m.node.desiredLimit = w, w.Limit
	report, err := r.Run(context.Background(), func() target.Target { return r.desired })
	if rec, lost := r.journal.Load(); lost == nil && rec.Phase == resize.Ended {
		if diff := cmp.Diff(report.Error, rec.Report.Error); diff != "" {
			t.Errorf("the journal has another report\n%s", diff)
		}
	}
	return report, err
}

// steps sums a report up: "+" is confirmed, "-" is not, "<" takes back.
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

// What happens when something does not go as planned.
func TestRunScenarios(t *testing.T) {
	for _, c := range []struct {
		name   string
		m      func(t *testing.T) *model
		memory uint64
		vcpus  int
		err    string // "" is none
		want   string
		after  uint64 // memory
	}{
		{"grow", func(t *testing.T) *model { return vm(t).virtioMem(2*gi, 0) }, 2 * gi, 2, "",
			"+ wait until the memory.max of pod and container are at least 2132Mi\n+ ask the guest to have 1Gi instead of 0 of its device virtiomem1", 2 * gi},
		{"a DIMM like one that there is", func(t *testing.T) *model {
			m := vm(t).dimm(512 * mi)
			m.state.Memory.Cells = 1
			return m
		}, 2 * gi, 2, "", "+ wait until the memory.max of pod and container are at least 2132Mi\n+ plug a DIMM of 512Mi into NUMA cell 0", 2 * gi},
		{"a vCPU that the guest had taken offline stays so", func(t *testing.T) *model {
			m := vm(t)
			m.state.VCPUs.Plugged, m.guest.offline = 4, 1
			return m
		}, gi, 6, "", "+ wait until the memory.max of pod and container are at least 1138Mi\n+ give the guest 6 vCPUs instead of 4", gi},
		{"a guest that takes no memory", func(t *testing.T) *model {
			m := vm(t).virtioMem(2*gi, 0)
			m.guest.refuseTake = true
			return m
		}, 2 * gi, 2, "not confirmed within 1m0s: the guest has 0 of its device virtiomem1 and was asked to have 1Gi",
			"+ wait until the memory.max of pod and container are at least 2132Mi\n- ask the guest to have 1Gi instead of 0 of its device virtiomem1\n" +
				"<+ ask the guest to keep what it has of its device virtiomem1", gi},
		{"a guest that takes a part, and gives nothing back", func(t *testing.T) *model {
			m := vm(t).virtioMem(2*gi, 0)
			m.guest.portionLeft = 512 * mi
			return m
		}, 2 * gi, 2, "and not all of it could be undone",
			"+ wait until the memory.max of pod and container are at least 2132Mi\n- ask the guest to have 1Gi instead of 0 of its device virtiomem1\n" +
				"<- ask the guest to have 0 instead of 512Mi of its device virtiomem1", gi + 512*mi},
		{"a guest that gives a part keeps the rest", func(t *testing.T) *model {
			m := vm(t).virtioMem(2*gi, gi)
			m.guest.portionLeft = 256 * mi
			return m
		}, gi, 2, "not confirmed within 2m0s: the guest has 768Mi",
			"- ask the guest to have 0 instead of 1Gi of its device virtiomem1\n<+ ask the guest to keep what it has of its device virtiomem1", gi + 768*mi},
		{"a DIMM that stays", func(t *testing.T) *model {
			m := vm(t).dimm(256 * mi).passthrough()
			m.guest.refuseGive = true
			return m
		}, gi, 2, "the guest has not given dimm1 back", "- ask the guest to give back dimm1, a DIMM of 256Mi", gi + 256*mi},
		{"a vCPU that the guest does not use", func(t *testing.T) *model {
			m := vm(t)
			m.guest.refuseTake = true
			return m
		}, gi, 4, "the guest uses 2 of its 4 vCPUs",
			"+ wait until the memory.max of pod and container are at least 1122Mi\n- give the guest 4 vCPUs instead of 2\n<+ give the guest 2 vCPUs instead of 4", gi},
		{"a vCPU that is not unplugged: nothing else is begun", func(t *testing.T) *model {
			m := vm(t).virtioMem(2*gi, 0)
			m.guest.refuseGive = true
			return m
		}, 2 * gi, 1, "not confirmed by the guest",
			"+ wait until the memory.max of pod and container are at least 2124Mi\n- give the guest 1 vCPUs instead of 2", gi},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(c.m(t))
			report, err := r.run(t, r.m.target(c.memory, c.vcpus))
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got error %v, want %q", c.name, err, c.err)
			}
			if diff := cmp.Diff(c.want, stepLog(report)); diff != "" {
				t.Errorf("%s (-want +got)\n%s", c.name, diff)
			}
			if report.Actual == nil || report.Actual.Memory != c.after || report.TargetReached != (c.err == "") {
				t.Errorf("%s: %+v", c.name, report.Actual)
			}
			if need := r.m.target(c.memory, c.vcpus).MemoryRequirement(); c.err == "" && r.m.node.requirement != need || r.m.node.migrationsHeld {
				t.Errorf("%s: the agent was told of %d: want %d; and holds migrations off: %v", c.name, r.m.node.requirement, need, r.m.node.migrationsHeld)
			}
		})
	}
}

// memory.max that is not raised, and one that is not lowered.
func TestIdleKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, 512*mi))
		w := r.m.target(2*gi, 2)
		r.desired = w
		report, err := r.Run(context.Background(), func() target.Target { return w })
		if err == nil || !strings.Contains(err.Error(), "want at least 2132Mi") || report.Actual.Memory != gi+512*mi || len(report.Steps) != 1 {
			t.Errorf("got %v\n%s", err, stepLog(report))
		}
		w = r.m.target(gi, 2)
		report, err = r.Run(context.Background(), func() target.Target { return w })
		if err == nil || !report.TargetReached || report.Actual.Memory != gi || !strings.Contains(stepLog(report), "- wait until the memory.max of the container is 1106Mi") {
			t.Errorf("got %v, %+v\n%s", err, report.Actual, stepLog(report))
		}
	})
}

// What is wanted changes while the first step is done: the step is ended, and planned
// anew.
func TestTargetChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, 0))
		r.m.afterChange = func() {
			r.desired = r.m.target(gi+512*mi, 3)
			r.desired.Generation, r.m.node.desiredLimit = 2, r.desired.Limit
		}
		report, err := r.run(t, r.m.target(2*gi, 4))
		want := "+ wait until the memory.max of pod and container are at least 2148Mi\n" +
			"+ ask the guest to have 1Gi instead of 0 of its device virtiomem1\n" +
			"+ wait until the memory.max of pod and container are at least 1627Mi\n" +
			"+ ask the guest to have 512Mi instead of 1Gi of its device virtiomem1\n" +
			"+ give the guest 3 vCPUs instead of 2\n" +
			"+ wait until the memory.max of the container is 1627Mi\n"
		if diff := cmp.Diff(want, stepLog(report)+"\n"); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if err != nil || report.Target.Generation != 2 || report.Actual.Memory != gi+512*mi || report.Actual.VCPUs != 3 {
			t.Errorf("got %v, %+v\n%s", err, report.Actual, stepLog(report))
		}
	})
}

// It changes while memory.max is waited for: nobody waits for the old one any more.
func TestTargetChangesWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, 0))
		w := r.m.target(2*gi, 2)
		later := r.m.target(gi, 2)
		later.Generation, r.m.node.desiredLimit = 2, later.Limit // kubelet raises nothing
		started := time.Now()
		report, err := r.Run(context.Background(), func() target.Target {
			if time.Since(started) > 10*time.Second {
				return later
			}
			return w
		})
		if err != nil || report.Target.Generation != 2 || !report.TargetReached || time.Since(started) > time.Minute {
			t.Errorf("got %v after %s, %+v", err, time.Since(started), report)
		}
	})
}

// It changes while the last step is done.
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

// A migration that begins: nothing more is changed, nothing undone, and the journal
// keeps the run for later.
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
		report, ok, err := r.Recover(context.Background(), func() target.Target { return r.desired })
		if !ok || err != nil || report.Actual.Memory != 2*gi {
			t.Errorf("recovered: %v, %v, %+v", ok, err, report)
		}
	})
}

// A guest that has taken a vCPU offline by itself is asked for nothing, and gets as
// many as it is to have.
func TestOfflineVCPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := vm(t).withLimits()
		m.state.VCPUs.Plugged, m.state.VCPUs.Online = 4, 3
		m.guest.refuseTake = true
		plan, err := resize.MakePlan(observe(t, m), target.Target{Size: api.Size{VCPUs: 4}}, resize.Policy{})
		if err != nil || len(plan.Steps) > 0 {
			t.Errorf("got %v, %v", descriptions(plan.Steps), err)
		}
	})
}

// Nothing is done for a domain that is gone, and the run ends at once.
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
		if _, err := r.run(t, r.m.target(2*gi, 2)); err == nil || !strings.Contains(err.Error(), "shut off") {
			t.Errorf("got %v", err)
		}
	})
}

// Kubelet lowers a limit when it tries again, and finds then what the agent was told when
// the VM had given its memory back.
func TestRequirementBeforeKubeletRetries(t *testing.T) {
	for name, m := range map[string]*model{
		"memory was given back": vm(t).virtioMem(2*gi, gi),
		"none had to be":        vm(t).virtioMem(2*gi, 0),
		"and a lock is lowered": vm(t).virtioMem(2*gi, gi).passthrough(),
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(m)
			m.node.backoff = 20
			m.node.limits.ContainerMax, m.node.limits.PodMax = 8*gi, 9*gi
			w := r.m.target(gi, 2)
			_, err := r.run(t, w)
			if err != nil || m.node.limits.ContainerMax != w.Limit || m.node.requirement > w.Limit {
				t.Errorf("%s: got %v, limit %d, need %d, want %d", name, err, m.node.limits.ContainerMax, m.node.requirement, w.Limit)
			}
		})
	}
}
