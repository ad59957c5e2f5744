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

	// given is the memory lock that a launcher was created with: what libvirt wants for
	// the VM as it boots, with a device of the host.
	launcherLock = uint64(booted + gi)
)

// side is one of a migration: a pod with a libvirtd, an agent, a journal and a
// coordinator of its own.
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
		{"an aborted one leaves the VM where it is", (*liveMigration).testAbort},
		{"one that comes between two steps of a resize", (*liveMigration).testBetween},
		{"one that succeeds takes the VM along", (*liveMigration).testSuccess},
		{"the guest shuts down there", func(m *liveMigration, t *testing.T) { m.target.testShutdown(t) }},
	} {
		if !t.Run(test.name, func(t *testing.T) { test.f(m, t) }) {
			return
		}
	}
}

type liveMigration struct{ source, target *migrationSide }

// seen waits until both shims have seen a migration. The VM has been given one DIMM.
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
	if s := m.source.read(t); s.Migrating || s.Phase != virt.Running || s.VCPUs.Plugged != 2 || s.VCPUs.Online != 2 {
		t.Errorf("%+v, want it to run with 2 vCPUs", s)
	}
	m.check(t)
}

// abort wants everything to be as before at both ends.
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

// testBetween: nobody has asked the agent, which would have refused it. The resize goes
// on where the migration leaves the VM.
func (m *liveMigration) testBetween(t *testing.T) {
	m.target.resetLock()
	var migration *libvirttest.Migration
	reached := m.source.atMoment(t, 2, vcpus(3), func() {
		migration = m.source.daemon.Migrate(t, m.target.daemon)
		m.source.await(t, "it is migrated", func(s virt.State) bool { return s.Migrating })
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
	generation := m.target.agent.setDesired(func(w *podapi.Desired) { w.VCPUs, w.Memory = 4, 2*booted })
	m.expectUntouched(t)
	migration.FullSpeed(t)
	if err := migration.Wait(); err != nil {
		t.Fatal(err)
	}
	m.source.await(t, "the source has ended", func(s virt.State) bool { return s.Phase == virt.ShutOff })
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

// leftAlone gives the shims time to do what they must not: they look several times.
func (m *liveMigration) expectUntouched(t *testing.T) {
	t.Helper()
	for _, s := range []*migrationSide{m.source, m.target} {
		enough := s.vm.lifeReadCount() + 6
		eventually(t, func() bool { return s.vm.lifeReadCount() >= enough }, func() { t.Fatal("nobody looks at the VM") })
	}
	if s := m.source.read(t); !s.Migrating {
		t.Fatalf("%+v, want the migration to go on", s)
	}
	m.check(t)
}

// check wants that nothing was changed while a lease held, and that nobody ended a VM.
func (m *liveMigration) check(t *testing.T) {
	t.Helper()
	for name, s := range map[string]*migrationSide{"source": m.source, "target": m.target} {
		wrong, ended := s.vm.findings()
		if len(wrong) > 0 || len(ended) > 0 {
			t.Errorf("at the %s was changed during a migration: %v; was ended: %v", name, wrong, ended)
		}
	}
}

func (s *migrationSide) awaitLease(t *testing.T, want bool) {
	t.Helper()
	eventually(t, func() bool {
		got, _ := s.agent.hasLease()
		return got == want
	}, func() { t.Fatalf("it never came that a lease holds: %t", want) })
}

// awaitLock waits until QEMU may lock so much, and wants that nobody asked for more.
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

// newQEMU says that the QEMU before is gone: the next one has the lock of its launcher.
func (s *migrationSide) resetLock() {
	s.withAgent(func(a *agent) { a.lock, a.raised = launcherLock, nil })
}

func (s *migrationSide) withAgent(f func(*agent)) {
	s.agent.mu.Lock()
	defer s.agent.mu.Unlock()
	f(s.agent)
}

// find finds the VM that has come.
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

// awaitRecord wants the resize in the journal of this end.
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
