//go:build cgo && libvirt_dlopen

package shutdown_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/shim/shutdown"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt/libvirttest"
)

// libvirt waits for a stopped QEMU without a time limit. Run still destroys the domain well within
// the test's timeout.
func TestHangingQEMU(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: libvirt takes its time to end a QEMU that hangs")
	}
	daemon := libvirttest.Start(t, false)
	if err := libvirt.StartEvents(); err != nil {
		libvirttest.Require(t, err.Error())
	}
	c, err := libvirt.Open(t.Context(), daemon.URI, libvirt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	daemon.CreateTransient(t, libvirttest.VM{}.XML(t))
	d, err := c.Domain(t.Context(), libvirttest.Name)
	if err != nil {
		t.Fatal(err)
	}
	daemon.SignalQEMU(t, syscall.SIGSTOP)
	expectHanging(t, d)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	got, err := shutdown.Run(ctx, d, shutdown.Options{Grace: 3 * time.Second, Resend: time.Second})
	if err != nil || got != shutdown.Destroyed {
		t.Errorf("outcome %q, error %v, want %s", got, err, shutdown.Destroyed)
	}
	if _, err := d.Phase(t.Context()); !errors.Is(err, virt.ErrNoDomain) {
		t.Errorf("the domain is still there: %v", err)
	}
}

// expectHanging checks that a shutdown request hangs while the phase is readable.
func expectHanging(t *testing.T, d virt.Domain) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := d.Shutdown(ctx, virt.ACPI); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Shutdown of a hanging QEMU: %v, want %v", err, context.DeadlineExceeded)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if phase, err := d.Phase(ctx); err != nil || phase != virt.Running {
		t.Errorf("phase %q, %v, during that call, want %s", phase, err, virt.Running)
	}
}
