package coordinator_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/coordinator"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// migrate begins or ends a migration, and waits until all has been done that can be at
// once.
func (r *rig) setMigrating(migrating bool) {
	r.Set(func(s *virt.State) { s.Migrating = migrating })
	synctest.Wait()
}

func (r *rig) expectLease(t *testing.T, want bool) {
	t.Helper()
	if got, _ := r.agent.hasLease(); got != want {
		t.Errorf("a lease holds: %t, want %t", got, want)
	}
}

// TestMigration: a lease holds from its beginning to its end, and is renewed. What is
// wanted meanwhile is done afterwards.
func TestMigration(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.expectLease(t, false)
		r.setMigrating(true)
		r.expectLease(t, true)
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		time.Sleep(time.Hour)
		r.expectLease(t, true)
		if _, taken := r.agent.hasLease(); time.Hour/time.Duration(taken) >= podapi.MaxLease {
			t.Errorf("the lease was taken %d times in an hour, and holds for %s at a time", taken, podapi.MaxLease)
		}
		if calls := r.Calls(); len(calls) > 0 {
			t.Errorf("calls %v while it is migrated", calls)
		}
		r.setMigrating(false)
		r.expectLease(t, false)
		time.Sleep(time.Second)
		r.agent.lastReport(t, podapi.StateDone)
		if s := r.state(t); s.VCPUs.Plugged != 2 {
			t.Errorf("vCPUs %+v, want 2", s.VCPUs)
		}
	})
}

// TestMigrationAgain: one that follows at once has a lease of its own.
func TestRepeatedMigration(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		for range 3 {
			r.setMigrating(true)
			r.expectLease(t, true)
			r.setMigrating(false)
			r.expectLease(t, false)
		}
	})
}

// TestMigrationInAResize: what was begun is left as it is, so that the lease can be
// taken, and finished afterwards.
func TestMigrationDuringResize(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{Late: true})
		r.setDesired(func(w *podapi.Desired) { w.VCPUs, w.Memory = 2, 2*gi })
		time.Sleep(2 * time.Second)
		begun := len(r.Calls())
		r.setMigrating(true)
		r.expectLease(t, true)
		r.AnswerPending()
		time.Sleep(time.Hour)
		if calls := r.Calls(); begun == 0 || len(calls) != begun {
			t.Errorf("calls %v, want the first %d", calls, begun)
		}
		r.SetGuest(virttest.Guest{})
		r.setMigrating(false)
		r.expectLease(t, false)
		time.Sleep(time.Minute)
		r.agent.lastReport(t, podapi.StateDone)
		if s := r.state(t); s.VCPUs.Online != 2 || s.Memory.Devices[0].Current != uint64(gi) {
			t.Errorf("vCPUs %+v, memory %+v", s.VCPUs, s.Memory)
		}
		for _, report := range r.agent.allReports() {
			if report.Error != "" {
				t.Errorf("report %+v: a migration was taken for a failure", report)
			}
		}
	})
}

// TestMigratedAway: the VM is somebody else's. The lease is given back, nothing is left
// to be finished, and the next VM is looked after.
func TestMigratedAway(t *testing.T) {
	j := &memory{}
	inBubble(t, func(c *coordinator.Config) { c.Journal = j }, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{Late: true})
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		time.Sleep(2 * time.Second)
		r.setMigrating(true)
		if record, err := j.Load(); err != nil || record.Phase != resize.Running {
			t.Fatalf("record %+v, %v, want one to be finished", record, err)
		}
		r.Set(func(s *virt.State) { s.Migrating, s.Phase = false, virt.ShutOff })
		time.Sleep(time.Second)
		r.expectLease(t, false)
		if record, err := j.Load(); err != nil || record.Phase != resize.Ended || record.Report == nil {
			t.Errorf("record %+v, %v, want it ended", record, err)
		}
		r.SetGuest(virttest.Guest{})
		r.Set(func(s *virt.State) { s.Phase, s.VCPUs.Plugged, s.VCPUs.Online = virt.Running, 1, 1 })
		time.Sleep(10 * time.Second)
		if s := r.state(t); s.VCPUs.Plugged != 2 {
			t.Errorf("the next VM: %+v", s)
		}
	})
}

// TestMigratedAwayWithAnothersJournal: what is another VM's is left alone.
func TestMigratedAwayWithOtherJournal(t *testing.T) {
	j := &memory{record: &resize.Record{Domain: "another", Phase: resize.Running}}
	inBubble(t, func(c *coordinator.Config) { c.Journal = j }, func(t *testing.T, r *rig) {
		r.setMigrating(true)
		r.Set(func(s *virt.State) { s.Migrating, s.Phase = false, virt.ShutOff })
		time.Sleep(time.Second)
		if record, err := j.Load(); err != nil || record.Phase != resize.Running {
			t.Errorf("record %+v, %v, want it as it was", record, err)
		}
	})
}

// TestMigrationComes: a VM that waits at its target is leased and left alone, and looked
// after once it runs.
func TestIncomingMigration(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.Set(func(s *virt.State) { s.Phase = virt.ShutOff })
		time.Sleep(time.Second)
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		r.Set(func(s *virt.State) { s.Phase, s.Migrating = virt.Paused, true })
		time.Sleep(time.Hour)
		r.expectLease(t, true)
		if calls := r.Calls(); len(calls) > 0 {
			t.Errorf("calls %v while it is migrated", calls)
		}
		r.Set(func(s *virt.State) { s.Phase, s.Migrating = virt.Running, false })
		time.Sleep(time.Second)
		r.expectLease(t, false)
		if s := r.state(t); s.VCPUs.Plugged != 2 {
			t.Errorf("vCPUs %+v, want 2", s.VCPUs)
		}
	})
}

// TestMigrationFails: an incoming VM that is gone again leaves no lease behind.
func TestFailedIncomingMigration(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.Set(func(s *virt.State) { s.Phase, s.Migrating = virt.Paused, true })
		time.Sleep(time.Second)
		r.expectLease(t, true)
		r.Set(func(s *virt.State) { s.Phase, s.Migrating = virt.ShutOff, false })
		time.Sleep(time.Second)
		r.expectLease(t, false)
	})
}

// TestMigrationWhileAgentIsAway: it is asked for the lease until it answers, and likewise
// to take it back.
func TestMigrationWithoutAgent(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		away := func(is bool) {
			r.agent.mu.Lock()
			defer r.agent.mu.Unlock()
			r.agent.away = is
		}
		away(true)
		r.setMigrating(true)
		time.Sleep(10 * time.Second)
		r.expectLease(t, false)
		away(false)
		time.Sleep(2 * time.Second)
		r.expectLease(t, true)
		away(true)
		r.setMigrating(false)
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		time.Sleep(time.Minute + 100*time.Millisecond)
		away(false)
		time.Sleep(2 * time.Second)
		r.expectLease(t, false)
		if s := r.state(t); s.VCPUs.Plugged != 2 {
			t.Errorf("vCPUs %+v, want 2", s.VCPUs)
		}
	})
}

// TestShimEndsInAMigration: the lease outlives it, and the next one gives it back.
func TestShimEndsDuringMigration(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.setMigrating(true)
		r.stopShim()
		r.expectLease(t, true)
		r.setMigrating(false)
		r.startShim(t)
		r.expectLease(t, false)
	})
}

// TestStopInAMigration: what the pod asks for does not wait.
func TestStopDuringMigration(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.setMigrating(true)
		r.podStop.Store(true)
		time.Sleep(2 * time.Second)
		r.expectLease(t, false)
		r.setMigrating(false)
		time.Sleep(time.Minute)
		if s := r.state(t); s.Phase != virt.ShutOff {
			t.Errorf("state %+v, want it shut off", s)
		}
	})
}
