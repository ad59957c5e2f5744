package resize_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
)

// shrinking is the record of an unfinished run, whose rollback would grow the VM by 1 GiB.
func shrinking(start string, to target.Target) resize.Record {
	return resize.Record{
		Domain: "a-vm", Start: start, Target: to, Phase: resize.RollingBack, Started: 1,
		Steps: resize.Steps{resize.RequestMemory{
			Alias: "virtiomem1", From: gi, To: 0, Within: time.Minute,
		}},
	}
}

// A record belongs to one start of the VM. The next start has its boot size, and keeps it.
func TestRecordOfAnEarlierStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, 0))
		r.m.node.limits.ContainerMax, r.m.node.limits.PodMax = 4*gi, 4*gi
		r.m.node.desiredLimit, r.m.node.limits.Start = 4*gi, "2@200"
		r.desired = r.m.target(gi, 2)
		if err := r.journal.Store(shrinking("1@100", r.desired)); err != nil {
			t.Fatal(err)
		}
		report, ok, err := r.Recover(context.Background(),
			func() target.Target { return r.desired })
		if ok || err != nil || r.m.state.Memory.Devices[0].Requested != 0 {
			t.Errorf("%t, %v, memory %+v\n%s", ok, err, r.m.state.Memory, stepLog(report))
		}
		if rec, err := r.journal.Load(); err != nil || rec.Phase != resize.Ended {
			t.Errorf("record %+v, %v, want it ended", rec, err)
		}
	})
}

// While the agent does not know the VM process, the record may be that of an earlier start.
func TestRecordWithUnknownStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, 0))
		r.desired = r.m.target(gi, 2)
		if err := r.journal.Store(shrinking("1@100", r.desired)); err != nil {
			t.Fatal(err)
		}
		_, ok, err := r.Recover(context.Background(), func() target.Target { return r.desired })
		if ok || !resize.Suspended(err) || r.m.state.Memory.Devices[0].Requested != 0 {
			t.Errorf("%t, %v, memory %+v", ok, err, r.m.state.Memory)
		}
	})
}

// A VM that starts anew during a run keeps its boot size: the failed step has no rollback.
func TestStartDuringRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(vm(t).virtioMem(2*gi, gi))
		r.m.node.limits.Start = "1@100"
		r.m.afterChange = func() {
			r.m.afterChange = nil
			r.m.node.limits.Start = "2@200"
			r.m.state.Memory.Devices[0].Requested, r.m.guest.refuseGive = 0, true
		}
		report, err := r.run(t, r.m.target(gi, 2))
		if !resize.Suspended(err) || len(report.Steps) != 1 {
			t.Errorf("%v\n%s", err, stepLog(report))
		}
		if _, ok, err := r.Recover(context.Background(), func() target.Target {
			return r.desired
		}); ok || err != nil {
			t.Errorf("%t, %v", ok, err)
		}
	})
}
