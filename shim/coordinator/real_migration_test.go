//go:build cgo && libvirt_dlopen

package coordinator_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/journal"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt/libvirttest"
)

const (
	dimm = 128 * mi

	// launcherLock is the launcher's memory-lock limit: libvirt's formula for the VM at boot, with
	// a host device.
	launcherLock = uint64(booted + gi)
)

// migrationSide is one side of a migration: a pod with its own libvirtd, agent, journal and shim.
type migrationSide struct {
	*pod
	vm *watchedLibvirt
}

func newSide(t *testing.T) *migrationSide {
	t.Helper()
	s := &migrationSide{pod: newPod(t)}
	s.agent.lock, s.agent.floor = launcherLock, launcherLock
	s.vm = &watchedLibvirt{Connection: s.connection, agent: s.agent}
	s.connection = s.vm
	return s
}

// TestLiveMigration moves a guest from one libvirtd to another.
func TestLiveMigration(t *testing.T) {
	m := &liveMigration{source: newSide(t), target: newSide(t)}
	m.source.boot(t, headroom.Options{Device: headroom.DIMM, Slots: 2})
	m.target.daemon.LinuxVM(t) // the files that its QEMU reads
	m.source.startShim(t)
	m.target.startShim(t)
	m.source.mustResize(t, guestMemory(booted+dimm))
	for _, test := range []struct {
		name string
		f    func(*liveMigration, *testing.T)
	}{
		{"an aborted migration leaves the VM unchanged", (*liveMigration).testAbort},
		{"a migration starts between two steps of a resize", (*liveMigration).testBetween},
		{"a migration succeeds", (*liveMigration).testSuccess},
		{"the guest shuts down at the target", func(m *liveMigration, t *testing.T) {
			m.target.testShutdown(t)
		}},
	} {
		if !t.Run(test.name, func(t *testing.T) { test.f(m, t) }) {
			return
		}
	}
}

type liveMigration struct{ source, target *migrationSide }

// awaitNoticed waits until both shims have noticed the migration of a VM with one added DIMM.
func (m *liveMigration) awaitNoticed(t *testing.T) {
	t.Helper()
	m.source.awaitLease(t, true)
	m.target.awaitLease(t, true)
	m.target.awaitLock(t, launcherLock+uint64(dimm))
}

func (m *liveMigration) testAbort(t *testing.T) {
	migration := m.source.daemon.Migrate(t, m.target.daemon)
	m.awaitNoticed(t)
	generation := m.source.agent.setDesired(vcpus(2))
	m.expectUntouched(t)
	m.abortAndCheck(t, migration)
	if r := m.source.outcome(t, generation); r.State != podapi.StateDone {
		t.Errorf("report %+v, want it done afterwards", r)
	}
	if s := m.source.read(t); s.Migrating || s.Phase != virt.Running || s.VCPUs.Plugged != 2 ||
		s.VCPUs.Online != 2 {
		t.Errorf("%+v, want it to run with 2 vCPUs", s)
	}
	m.check(t)
}

// abortAndCheck aborts the migration. No lease and no VM at the target may remain.
func (m *liveMigration) abortAndCheck(t *testing.T, migration *libvirttest.Migration) {
	t.Helper()
	migration.Abort(t)
	if err := migration.Wait(); err == nil {
		t.Error("an aborted migration has succeeded")
	}
	m.source.awaitLease(t, false)
	m.target.awaitLease(t, false)
	m.target.awaitNoVM(t)
}

// testBetween starts a migration without asking the agent, which would have refused it. The resize
// continues after the migration's end.
func (m *liveMigration) testBetween(t *testing.T) {
	m.target.resetLock()
	var migration *libvirttest.Migration
	reached := m.source.atMoment(t, 2, vcpus(3), func() {
		migration = m.source.daemon.Migrate(t, m.target.daemon)
		m.source.await(t, "the migration starts", func(s virt.State) bool { return s.Migrating })
	})
	if !reached {
		t.Fatal("no record")
	}
	m.awaitNoticed(t)
	m.expectUntouched(t)
	if s := m.source.read(t); s.VCPUs.Plugged != 2 {
		t.Errorf("vCPUs %+v, want 2", s.VCPUs)
	}
	m.abortAndCheck(t, migration)
	if r := m.source.outcome(t, m.source.agent.generation()); r.State != podapi.StateDone {
		t.Errorf("report %+v, want it done afterwards", r)
	}
	if s := m.source.read(t); s.VCPUs.Online != 3 {
		t.Errorf("vCPUs %+v, want 3", s.VCPUs)
	}
	m.check(t)
}

func (m *liveMigration) testSuccess(t *testing.T) {
	m.target.resetLock()
	migration := m.source.daemon.Migrate(t, m.target.daemon)
	m.awaitNoticed(t)
	generation := m.target.agent.setDesired(func(w *podapi.Desired) {
		w.VCPUs, w.Memory = 4, 2*booted
	})
	m.expectUntouched(t)
	migration.FullSpeed(t)
	if err := migration.Wait(); err != nil {
		t.Fatal(err)
	}
	m.source.await(t, "the source has ended", func(s virt.State) bool {
		return s.Phase == virt.ShutOff
	})
	m.source.awaitLease(t, false)
	m.target.awaitLease(t, false)
	m.target.findVM(t)
	if r := m.target.outcome(t, generation); r.State != podapi.StateDone {
		t.Fatalf("report %+v, want it done at the target", r)
	}
	if s := m.target.read(t); s.VCPUs.Online != 4 || s.Memory.Balloon != uint64(2*booted) {
		t.Errorf("%+v, want 4 vCPUs and %d bytes", s, 2*booted)
	}
	m.target.daemon.AwaitConsole(t, "cpus=0-3")
	m.target.awaitLock(t, launcherLock+uint64(booted))
	m.target.expectRecord(t)
	m.check(t)
}

// expectUntouched gives the shims time for mistakes: each polls the VM several times.
func (m *liveMigration) expectUntouched(t *testing.T) {
	t.Helper()
	for _, s := range []*migrationSide{m.source, m.target} {
		enough := s.vm.lifeReadCount() + 6
		enoughReads := func() bool { return s.vm.lifeReadCount() >= enough }
		eventually(t, enoughReads, func() { t.Fatal("the shim does not poll the VM") })
	}
	if s := m.source.read(t); !s.Migrating {
		t.Fatalf("%+v, want the migration to go on", s)
	}
	m.check(t)
}

// check expects no change of a VM during a lease, and no end of a VM by a shim.
func (m *liveMigration) check(t *testing.T) {
	t.Helper()
	for name, s := range map[string]*migrationSide{"source": m.source, "target": m.target} {
		wrong, ended := s.vm.findings()
		if len(wrong) > 0 || len(ended) > 0 {
			t.Errorf("the %s changed during a migration: %v; ended by: %v", name, wrong, ended)
		}
	}
}

func (s *migrationSide) awaitLease(t *testing.T, want bool) {
	t.Helper()
	eventually(t, func() bool {
		got, _ := s.agent.hasLease()
		return got == want
	}, func() { t.Fatalf("lease %t, want %t", !want, want) })
}

// awaitLock waits until QEMU's limit was raised to this value. The shim must not raise it further.
func (s *migrationSide) awaitLock(t *testing.T, want uint64) {
	t.Helper()
	var raised []uint64
	eventually(t, func() bool {
		s.withAgent(func(a *agent) { raised = slices.Clone(a.raised) })
		return slices.Contains(raised, want)
	}, func() { t.Fatalf("the memory lock was raised to %v, want %d", raised, want) })
	if slices.Max(raised) != want {
		t.Errorf("the memory lock was raised to %v, want %d", raised, want)
	}
}

// resetLock represents a new QEMU process with its launcher's limit.
func (s *migrationSide) resetLock() {
	s.withAgent(func(a *agent) { a.lock, a.raised = launcherLock, nil })
}

func (s *migrationSide) withAgent(f func(*agent)) {
	s.agent.mu.Lock()
	defer s.agent.mu.Unlock()
	f(s.agent)
}

// findVM finds the VM that has migrated to this side.
func (s *migrationSide) findVM(t *testing.T) {
	t.Helper()
	var err error
	if s.Domain, err = s.connection.Domain(t.Context(), libvirttest.Name); err != nil {
		t.Fatal(err)
	}
}

func (s *migrationSide) awaitNoVM(t *testing.T) {
	t.Helper()
	var err error
	eventually(t, func() bool {
		_, err = s.connection.Domain(t.Context(), libvirttest.Name)
		return errors.Is(err, virt.ErrNoDomain)
	}, func() { t.Fatalf("error %v, want the VM gone", err) })
}

// expectRecord expects the ended resize in this side's journal.
func (s *migrationSide) expectRecord(t *testing.T) {
	t.Helper()
	s.stopShim()
	file, err := journal.Open(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	record, err := file.Load()
	if err != nil || record.Phase != resize.Ended || record.Domain != s.read(t).UUID {
		t.Errorf("record %+v, %v, want that of the VM", record, err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	s.startShim(t)
}
