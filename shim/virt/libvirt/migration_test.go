//go:build cgo && libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt/libvirttest"
)

// Migrating is true on source and target from the beginning of a migration to its end.
func TestMigration(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: boots a guest")
	}
	source, target := libvirttest.Start(t, false), libvirttest.Start(t, false)
	targetConn, sourceConn := open(t, target.URI, Options{}), open(t, source.URI, Options{})
	target.LinuxVM(t)
	v := bootDefined(t, source, sourceConn, source.LinuxVM(t))
	awaitState(
		t, v, "the agent answers", func(s virt.State, _ error) bool { return s.VCPUs.Online == 1 },
	)
	migrating := func(s virt.State, err error) bool { return err == nil && s.Migrating }

	m := source.Migrate(t, target)
	awaitState(t, v, "the source migrates", migrating)
	arrived := awaitDomain(t, targetConn)
	if s, err := arrived.State(t.Context()); err != nil || !s.Migrating {
		t.Errorf("%+v, %v at the target, want it to migrate", s, err)
	}
	awaitState(t, arrived, "the guest waits at the target", func(s virt.State, err error) bool {
		return migrating(s, err) && s.Phase == virt.Paused
	})
	m.Abort(t)
	if err := m.Wait(); err == nil {
		t.Error("an aborted migration has succeeded")
	}
	awaitState(t, v, "it runs at the source", func(s virt.State, err error) bool {
		return err == nil && !s.Migrating && s.Phase == virt.Running
	})
	awaitState(
		t, arrived, "nothing is left at the target",
		func(_ virt.State, err error) bool { return errors.Is(err, virt.ErrNoDomain) },
	)
}

// awaitDomain waits until the migrated domain exists on the target.
func awaitDomain(t *testing.T, c virt.Connection) virt.Domain {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		d, err := c.Domain(ctx, libvirttest.Name)
		if err == nil {
			return d
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		<-tick.C
	}
}
