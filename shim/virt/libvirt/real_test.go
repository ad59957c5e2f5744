//go:build cgo && libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt/libvirttest"
)

const mib = 1 << 20

// awaitState polls the domain until the condition is met.
func awaitState(
	t *testing.T,
	d virt.Domain,
	condition string,
	met func(virt.State, error) bool,
) virt.State {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := d.State(ctx)
		if met(s, err) {
			return s
		}
		if ctx.Err() != nil {
			t.Fatalf("never met: %s: %+v, %v", condition, s, err)
		}
		<-tick.C
	}
}

// Firmware without an operating system accepts no change, so the state differs from the request.
// The domain is transient: it has no definition to change.
func TestGuestWithoutOS(t *testing.T) {
	d := libvirttest.Start(t, true)
	c := open(t, d.URI, Options{})
	v := createTransient(t, d, c)
	must(
		t, v.SetVCPUs(t.Context(), 2), v.RequestMemory(t.Context(), "virtiomem0", 64*mib),
		v.AttachDIMM(t.Context(), 0, 128*mib),
	)
	must(t, v.SetBalloon(t.Context(), 128*mib))
	if d.HasCPUController() {
		must(
			t,
			v.SetBandwidth(t.Context(), virt.Bandwidth{Quota: 50 * time.Millisecond, Shares: 200}),
		)
	}
	must(t, v.DetachDIMM(t.Context(), "dimm0"), v.Shutdown(t.Context(), virt.ACPI))
	s := awaitState(
		t, v, "it is resized", func(s virt.State, _ error) bool { return s.VCPUs.Plugged == 2 },
	)
	if s.Phase != virt.Running || s.VCPUs.Online != virt.Unknown || len(s.Memory.Devices) != 2 {
		t.Errorf("%+v, want a running domain, a DIMM, and an unknown number of online vCPUs", s)
	}
	if m := s.Memory.Devices[0]; m.Requested != 64*mib || m.Current != 0 {
		t.Errorf("%+v, want 64 MiB requested and nothing taken", m)
	}
	if err := v.Shutdown(t.Context(), virt.GuestAgent); err == nil {
		t.Error("shutdown by a missing agent succeeded")
	}
	must(t, v.Destroy(t.Context()))
	awaitState(
		t, v, "it is gone",
		func(_ virt.State, err error) bool { return errors.Is(err, virt.ErrNoDomain) },
	)
}

// libvirt may run without the CPU controller, as in session mode.
func TestNoCPUController(t *testing.T) {
	d := libvirttest.Start(t, false)
	v := createTransient(t, d, open(t, d.URI, Options{}))
	if s, err := v.State(t.Context()); err != nil || s.Bandwidth != (virt.Bandwidth{}) {
		t.Errorf("%+v, %v, want no bandwidth", s, err)
	}
	for _, b := range []virt.Bandwidth{{Quota: virt.Unlimited}, {Shares: 200}} {
		if err := v.SetBandwidth(t.Context(), b); !errors.Is(err, virt.ErrUnsupported) {
			t.Errorf("SetBandwidth of %+v: %v, want %v", b, err, virt.ErrUnsupported)
		}
	}
}

// A guest may leave plugged vCPUs offline and ignore the power button.
func TestGuestIgnoresRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: boots a guest")
	}
	d := libvirttest.Start(t, false)
	v := bootDefined(
		t, d, open(t, d.URI, Options{}),
		d.LinuxVM(t, "guest.keep-cpus-offline", "guest.ignore-power-button"),
	)
	awaitState(
		t, v, "the agent answers", func(s virt.State, _ error) bool { return s.VCPUs.Online == 1 },
	)
	askAgentConcurrently(t, v)
	must(t, v.SetVCPUs(t.Context(), 3), v.Shutdown(t.Context(), virt.ACPI))
	d.AwaitConsole(t, "power button ignored")
	s, err := v.State(t.Context())
	if err != nil || s.Phase != virt.Running || s.VCPUs.Plugged != 3 || s.VCPUs.Online != 1 {
		t.Errorf("%+v, %v, want 3 plugged, 1 online", s, err)
	}
	err = v.Shutdown(t.Context(), virt.GuestAgent)
	if err != nil && !errors.Is(err, virt.ErrUnconfirmed) {
		t.Error(err)
	}
	awaitState(
		t, v, "it is off", func(s virt.State, _ error) bool { return s.Phase == virt.ShutOff },
	)
}

// askAgentConcurrently reads the state from several goroutines. All get the agent's answer.
func askAgentConcurrently(t *testing.T, v virt.Domain) {
	t.Helper()
	var callers errgroup.Group
	for range 8 {
		callers.Go(func() error {
			s, err := v.State(t.Context())
			if err == nil && s.VCPUs.Online != 1 {
				err = fmt.Errorf("%d vCPUs online, want 1", s.VCPUs.Online)
			}
			return err
		})
	}
	if err := callers.Wait(); err != nil {
		t.Error(err)
	}
}

// A hanging daemon blocks a caller no longer than its context. The connection counts as lost, and
// the outcome of running calls is unknown.
func TestHangingDaemon(t *testing.T) {
	d := libvirttest.Start(t, false)
	c := open(t, d.URI, Options{ProbeInterval: time.Second, MaxCalls: 2, MaxBackoff: shortPause})
	v := createTransient(t, d, c)
	changed, err := v.Changed(t.Context())
	must(t, err)
	d.SignalLibvirtd(t, syscall.SIGSTOP)
	ended, cancel := context.WithCancel(t.Context())
	for range 3 { // one more than MaxCalls
		go func() { _, _ = v.State(ended) }()
	}
	short, end := context.WithTimeout(t.Context(), shortPause)
	defer end()
	if _, err := v.State(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("State of a daemon that hangs: %v, want %v", err, context.DeadlineExceeded)
	}
	cancel()
	awaitState(
		t, v, "the connection is lost",
		func(_ virt.State, err error) bool { return errors.Is(err, virt.ErrConnection) },
	)
	for len(changed) > 0 {
		<-changed
	}
	d.SignalLibvirtd(t, syscall.SIGCONT)
	<-changed
	awaitState(
		t, v, "it is back",
		func(s virt.State, err error) bool { return err == nil && s.Phase == virt.Running },
	)
}

func TestOpenWithoutDaemon(t *testing.T) {
	must(t, StartEvents())
	ctx, cancel := context.WithTimeout(t.Context(), 2*shortPause)
	defer cancel()
	_, err := Open(
		ctx,
		"qemu+unix:///system?socket="+t.TempDir()+"/none",
		Options{MinBackoff: time.Millisecond, MaxBackoff: shortPause},
	)
	if !errors.Is(err, virt.ErrConnection) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open: %v, want %v", err, virt.ErrConnection)
	}
	_, err = Open(t.Context(), "test:///nothing", Options{})
	if err == nil || errors.Is(err, virt.ErrConnection) {
		t.Errorf("Open of a test driver without a definition: %v", err)
	}
}

func TestClose(t *testing.T) {
	c := open(t, "test:///default", Options{})
	v := find(t, c, "test")
	changed, err := v.Changed(t.Context())
	must(t, err, c.Close())
	<-changed
	if _, err := v.State(t.Context()); !errors.Is(err, virt.ErrConnection) {
		t.Errorf("State after Close: %v, want %v", err, virt.ErrConnection)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
