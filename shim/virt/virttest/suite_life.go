package virttest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

func (f Fixture) testContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	changed, err := f.Domain.Changed(ctx)
	must(t, err)
	cancel()
	for range changed { // ends when the channel is closed
	}
	if _, err := f.Domain.State(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("State of a canceled context: %v", err)
	}
	if _, err := f.Domain.Phase(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Phase of a canceled context: %v", err)
	}
	if _, err := f.Domain.Life(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Life of a canceled context: %v", err)
	}
	if _, err := f.Domain.StateWithoutGuest(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("StateWithoutGuest of a canceled context: %v", err)
	}
	if _, err := f.Domain.Changed(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Changed of a canceled context: %v", err)
	}
}

func (f Fixture) testConnectionLoss(t *testing.T) {
	if f.StopLibvirt == nil {
		return
	}
	before := f.state(t)
	changed, err := f.Domain.Changed(t.Context())
	must(t, err)
	f.StopLibvirt(t)
	ctx, cancel := context.WithTimeout(t.Context(), stateTimeout)
	defer cancel()
	for err == nil && ctx.Err() == nil {
		_, err = f.Domain.State(ctx)
	}
	if !errors.Is(err, virt.ErrConnection) {
		t.Errorf("State without libvirt: %v, want %v", err, virt.ErrConnection)
	}
	if _, err := f.Domain.Phase(ctx); !errors.Is(err, virt.ErrConnection) {
		t.Errorf("Phase without libvirt: %v, want %v", err, virt.ErrConnection)
	}
	for len(changed) > 0 {
		<-changed
	}
	f.StartLibvirt(t)
	select {
	case <-changed:
	case <-ctx.Done():
		t.Fatal("no notice that libvirt is back")
	}
	f.await(t, "the domain is as before", func(s virt.State) bool {
		return s.Phase == before.Phase && s.VCPUs == before.VCPUs && s.Bandwidth == before.Bandwidth
	})
}

func (f Fixture) testShutdown(t *testing.T) {
	f.expectRefused(t, "an unknown shutdown method", f.Domain.Shutdown(t.Context(), "politely"))
	err := f.Domain.Shutdown(t.Context(), virt.ACPI)
	if f.ACPI {
		must(t, err)
	} else {
		f.expectRefused(t, "the power button", err, virt.ErrUnsupported)
		must(t, f.Domain.Destroy(t.Context()))
	}
	f.await(t, "the domain is off", func(s virt.State) bool { return s.Phase == virt.ShutOff })
	f.expectReadsAgree(t)
	for what, err := range map[string]error{
		"vCPUs":    f.Domain.SetVCPUs(t.Context(), 1),
		"shutdown": f.Domain.Shutdown(t.Context(), virt.ACPI),
		"destroy":  f.Domain.Destroy(t.Context()),
	} {
		if what != "shutdown" || f.ACPI {
			f.expectRefused(t, what+" of a domain that is off", err, virt.ErrNotRunning)
		}
	}
}

func (f Fixture) testRestart(t *testing.T) {
	before := f.state(t)
	ctx, cancel := context.WithTimeout(t.Context(), stateTimeout)
	defer cancel()
	changed := f.Connection.Changed(ctx)
	f.Restart(t)
	if <-changed; ctx.Err() != nil { // its end closes the channel
		t.Error("no notice of the start")
	}
	f.awaitReplaced(t)
	again, err := f.Connection.Domain(t.Context(), before.Name)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := again.Phase(t.Context()); p != virt.Running || err != nil {
		t.Errorf("phase after the restart is %s, %v", p, err)
	}
	must(t, again.Destroy(t.Context()))
}

// awaitReplaced waits until the old start of the domain is unknown. An implementation may need an
// event to learn of the restart.
func (f Fixture) awaitReplaced(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stateTimeout)
	defer cancel()
	for {
		p, err := f.Domain.Phase(ctx)
		if errors.Is(err, virt.ErrNoDomain) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("phase of the old start is %s, %v, want %v", p, err, virt.ErrNoDomain)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
