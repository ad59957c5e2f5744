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

// setMigrating starts or ends a migration, and waits until the coordinator waits for time or
// events.
func (r *rig) setMigrating(migrating bool) {
	r.Set(func(s *virt.State) { s.Migrating = migrating })
	synctest.Wait()
}

func (r *rig) expectLease(t *testing.T, want bool) {
	t.Helper()
	if got, _ := r.agent.hasLease(); got != want {
		t.Errorf("lease %t, want %t", got, want)
	}
}

// The shim holds and renews a lease during the whole migration. It resizes the VM afterwards.
func TestMigration(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.expectLease(t, false)
		r.setMigrating(true)
		r.expectLease(t, true)
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		time.Sleep(time.Hour)
		r.expectLease(t, true)
		if _, taken := r.agent.hasLease(); time.Hour/time.Duration(taken) >= podapi.MaxLease {
			t.Errorf("%d leases of %s in an hour, want no gap", taken, podapi.MaxLease)
		}
		if calls := r.Calls(); len(calls) > 0 {
			t.Errorf("calls %v during the migration", calls)
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

// A drain requests the stop of a VM during its migration. The guest gets no request before the
// migration has failed.
func TestStopRequestDuringMigration(t *testing.T) {
	for name, shim := range map[string]func(*testing.T, *rig){
		"same shim": func(*testing.T, *rig) {},
		"next shim": func(t *testing.T, r *rig) {
			r.stopShim()
			r.startShim(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, r *rig) {
				r.setMigrating(true)
				r.podStop.Store(true)
				shim(t, r)
				time.Sleep(20 * time.Minute)
				if n := r.shutdownRequests(); n > 0 {
					t.Fatalf("%d shutdown requests to a migrating guest", n)
				}
				r.expectLease(t, true)
				r.setMigrating(false)
				time.Sleep(time.Minute)
				if s := r.state(t); s.Phase != virt.ShutOff {
					t.Errorf("state %+v, want it shut off", s)
				}
				r.expectLease(t, false)
			})
		})
	}
}

// libvirt has no event for the start of a migration. A stop request makes the shim look for one,
// and without a request the shim notices the migration within 30 s.
func TestMigrationWithoutEvent(t *testing.T) {
	start := func(s *virt.State) { s.Migrating = true }
	t.Run("stop request", func(t *testing.T) {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			time.Sleep(10 * time.Second)
			r.SetSilently(start)
			r.podStop.Store(true)
			time.Sleep(time.Minute)
			if n := r.shutdownRequests(); n > 0 {
				t.Errorf("%d shutdown requests to a migrating guest", n)
			}
			r.SetSilently(func(s *virt.State) { s.Migrating = false })
			time.Sleep(2 * time.Second)
			if s := r.state(t); s.Phase != virt.ShutOff {
				t.Errorf("state %+v after the migration, want it shut off", s)
			}
		})
	})
	t.Run("no request", func(t *testing.T) {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			r.SetSilently(start)
			time.Sleep(31 * time.Second)
			r.expectLease(t, true)
		})
	})
}

// The agent requests the stop after the lease has ended, also during a migration.
func TestAgentStopDuringMigration(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.setMigrating(true)
		r.agent.sendStop(stopWithin(60))
		time.Sleep(2 * time.Second)
		if r.shutdownRequests() == 0 {
			t.Error("no shutdown request")
		}
	})
}

// A migration that follows at once gets a lease of its own.
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

// A migration interrupts a resize, so that the agent can grant the lease. The resize continues
// afterwards.
func TestMigrationDuringResize(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{Late: true})
		r.setDesired(func(w *podapi.Desired) { w.VCPUs, w.Memory = 2, 2*gi })
		time.Sleep(2 * time.Second)
		started := len(r.Calls())
		r.setMigrating(true)
		r.expectLease(t, true)
		r.AnswerPending()
		time.Sleep(time.Hour)
		if calls := r.Calls(); started == 0 || len(calls) != started {
			t.Errorf("calls %v, want the first %d", calls, started)
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
				t.Errorf("report %+v: the migration was reported as a failure", report)
			}
		}
	})
}

// After a VM has migrated away, the shim releases the lease, ends the journal's record and serves
// the next VM.
func TestMigratedAway(t *testing.T) {
	j := &memoryJournal{}
	inBubble(t, func(c *coordinator.Config) { c.Journal = j }, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{Late: true})
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		time.Sleep(2 * time.Second)
		r.setMigrating(true)
		if record, err := j.Load(); err != nil || record.Phase != resize.Running {
			t.Fatalf("record %+v, %v, want an unfinished one", record, err)
		}
		r.Set(func(s *virt.State) { s.Migrating, s.Phase = false, virt.ShutOff })
		time.Sleep(time.Second)
		r.expectLease(t, false)
		if record, err := j.Load(); err != nil || record.Phase != resize.Ended ||
			record.Report == nil {
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

// The shim keeps the record of another VM.
func TestMigratedAwayWithOtherJournal(t *testing.T) {
	j := &memoryJournal{record: &resize.Record{Domain: "another", Phase: resize.Running}}
	inBubble(t, func(c *coordinator.Config) { c.Journal = j }, func(t *testing.T, r *rig) {
		r.setMigrating(true)
		r.Set(func(s *virt.State) { s.Migrating, s.Phase = false, virt.ShutOff })
		time.Sleep(time.Second)
		if record, err := j.Load(); err != nil || record.Phase != resize.Running {
			t.Errorf("record %+v, %v, want it unchanged", record, err)
		}
	})
}

// At the target of a migration the shim takes a lease for the incoming VM. It resizes the VM when
// it runs.
func TestIncomingMigration(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.Set(func(s *virt.State) { s.Phase = virt.ShutOff })
		time.Sleep(time.Second)
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		r.Set(func(s *virt.State) { s.Phase, s.Migrating = virt.Paused, true })
		time.Sleep(time.Hour)
		r.expectLease(t, true)
		if calls := r.Calls(); len(calls) > 0 {
			t.Errorf("calls %v during the migration", calls)
		}
		r.Set(func(s *virt.State) { s.Phase, s.Migrating = virt.Running, false })
		time.Sleep(time.Second)
		r.expectLease(t, false)
		if s := r.state(t); s.VCPUs.Plugged != 2 {
			t.Errorf("vCPUs %+v, want 2", s.VCPUs)
		}
	})
}

// The shim releases the lease if the incoming VM disappears.
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

// While the agent is away, the shim retries to take and to release the lease.
func TestMigrationWithoutAgent(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		away := func(value bool) {
			r.agent.mu.Lock()
			defer r.agent.mu.Unlock()
			r.agent.away = value
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

// The lease outlives the shim. The next shim releases it.
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
