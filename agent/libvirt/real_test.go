package libvirt

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestRealLibvirt checks records and shutdowns with a real libvirt.
func TestRealLibvirt(t *testing.T) {
	r := startLibvirt(t)
	counts := counted(t, r.Dir)
	r.Must(t, "create", filepath.Join(r.Home, "vm.xml"))
	await(t, counts, 1)
	all, err := r.List()
	if err != nil || len(all) != 1 {
		t.Fatalf("List = %+v, %v", all, err)
	}
	d := all[0]
	t.Cleanup(func() { _ = unix.Kill(d.PID, unix.SIGKILL) })
	if diff := cmp.Diff(Domain{Name: "vm-1", UUID: vm1.UUID, PID: d.PID}, d); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !d.RunBy(argsOf(d.PID)) {
		t.Errorf("%+v is not run by %q", d, argsOf(d.PID))
	}
	if id, err := r.UUID(t.Context(), d.Name); id != d.UUID || err != nil {
		t.Errorf("UUID of %s = %q, %v, want %s", d.Name, id, err, d.UUID)
	}
	former := Domain{Name: d.Name, UUID: d.UUID, PID: d.PID + 1}
	if err := r.Shutdown(t.Context(), d.UUID, func() error { return r.Runs(former) }); !errors.Is(
		err, ErrOtherProcess) {
		t.Errorf("shutdown of an earlier process: %v", err)
	}
	// The firmware ignores the button: the test only checks the call.
	meant := func() error { return r.Runs(d) }
	if err := r.Shutdown(t.Context(), d.UUID, meant); err != nil {
		t.Error(err)
	}
	r.Destroy(t, "vm-1")
	await(t, counts, 0)
	if err := r.Shutdown(t.Context(), d.UUID, meant); !errors.Is(err, ErrNoDomain) {
		t.Errorf("shutdown of an absent domain: %v", err)
	}
	r.Must(t, "define", filepath.Join(r.Home, "vm.xml"))
	if err := r.Shutdown(t.Context(), d.UUID, meant); !errors.Is(err, ErrNoDomain) {
		t.Errorf("shutdown of an inactive domain: %v", err)
	}
}

// Records and QEMU outlive a killed daemon.
func TestKilledLibvirt(t *testing.T) {
	r := startLibvirt(t)
	r.Must(t, "create", filepath.Join(r.Home, "vm.xml"))
	before, err := r.List()
	if err != nil || len(before) != 1 {
		t.Fatalf("List = %+v, %v", before, err)
	}
	t.Cleanup(func() { _ = unix.Kill(before[0].PID, unix.SIGKILL) })
	if args := argsOf(r.DaemonPID(t)); !IsDaemon(args) {
		t.Errorf("libvirt's daemon has the arguments %q", args)
	}
	r.Kill(t)
	if err := r.Shutdown(t.Context(), vm1.UUID, always); err == nil {
		t.Error("a shutdown request without libvirt succeeds")
	}
	after, err := r.List()
	if diff := cmp.Diff(before, after); diff != "" || err != nil {
		t.Errorf("%v (-before +after)\n%s", err, diff)
	}
	if !after[0].RunBy(argsOf(after[0].PID)) {
		t.Errorf("%+v is not run any more", after[0])
	}
	r.StartAgain(t)
	if err := r.Shutdown(context.Background(), vm1.UUID, always); err != nil {
		t.Errorf("by the next daemon: %v", err)
	}
}
