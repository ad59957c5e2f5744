//go:build cgo && libvirt_dlopen

package coordinator_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/shutdown"
	"github.com/mooring-vm/mooring/shim/virt"
)

// sizes returns one of two sizes between which faults are injected.
func sizes(i int) (bytes int64, change func(*podapi.Desired)) {
	bytes, percent := booted, 80
	if i%2 > 0 {
		bytes, percent = booted+64*mi, 160
	}
	return bytes, func(w *podapi.Desired) {
		w.Memory, w.CPUQuota = api.Bytes(bytes), api.CPUQuota{Percent: percent}
	}
}

// atMoment changes the desired size, and calls action at the nth moment of the resize while the
// coordinator waits. It returns false if the resize has fewer moments. A moment is the Hold before
// each step, or the end of a write to the journal.
func (p *pod) atMoment(t *testing.T, nth int, change func(*podapi.Desired), action func()) bool {
	t.Helper()
	reached, resume := make(chan struct{}), make(chan struct{})
	written := 0
	hook := func() {
		if written++; written == nth {
			close(reached)
			<-resume
		}
	}
	p.hook.Store(&hook)
	defer p.hook.Store(nil)
	generation := p.agent.setDesired(change)
	seen := false
	eventually(t, func() bool {
		select {
		case <-reached:
			seen = true
		default:
		}
		return seen || p.hasOutcome(generation)
	}, func() { t.Errorf("neither moment %d nor the end of the resize has come", nth) })
	if seen {
		action()
	}
	close(resume)
	return seen
}

// hasOutcome reports whether the shim has reported the end of a resize.
func (p *pod) hasOutcome(generation uint64) bool {
	reports := p.agent.allReports()
	last := reports[len(reports)-1]
	return last.Generation >= generation && last.State != podapi.StateResizing
}

// testRestartedShim ends the shim at every moment. The next shim finishes the resize.
func (p *pod) testRestartedShim(t *testing.T) {
	n := 1
	for ; ; n++ {
		want, change := sizes(n)
		some := p.atMoment(t, n, change, func() { p.shimDead.Store(true) })
		if !some {
			break
		}
		p.stopShim()
		p.startShim(t)
		p.expectFinished(t, n, want)
	}
	if n < 5 {
		t.Errorf("a resize has %d moments, want more", n-1)
	}
}

// testKilledLibvirtd kills libvirtd. The shim continues when libvirt is back.
func (p *pod) testKilledLibvirtd(t *testing.T) {
	for n := 1; n <= 4; n++ {
		want, change := sizes(n)
		if !p.atMoment(t, n, change, func() { p.daemon.SignalLibvirtd(t, syscall.SIGKILL) }) {
			t.Fatalf("no moment %d", n)
		}
		p.daemon.StartLibvirtd(t)
		p.expectFinished(t, n, want)
	}
}

// expectFinished waits for the end of the resize after moment n. The VM must have its size.
func (p *pod) expectFinished(t *testing.T, n int, memory int64) {
	t.Helper()
	if r := p.outcome(t, p.agent.generation()); r.State != podapi.StateDone {
		t.Fatalf("at moment %d: report %+v", n, r)
	}
	if s := p.read(t); s.Memory.Balloon != uint64(memory) {
		t.Errorf("at moment %d: memory %+v, want %d", n, s.Memory, memory)
	}
}

// testChangedTarget changes the desired size during a resize. The shim drops the old size.
func (p *pod) testChangedTarget(t *testing.T) {
	if !p.atMoment(t, 2, guestMemory(2*booted), func() {
		p.agent.setDesired(guestMemory(booted + 64*mi))
	}) {
		t.Fatal("no record")
	}
	p.expectFinished(t, 1, booted+64*mi)
}

// The guest plugs vCPUs but does not use them. The shim rolls the vCPUs back, as far as QEMU can,
// and the memory plugged before them. CloudStack leaves both. A guest that ignores the power button
// is destroyed.
func TestUncooperativeGuest(t *testing.T) {
	p := start(t, headroom.Options{}, "guest.keep-cpus-offline", "guest.keep-memory-offline",
		"guest.ignore-power-button")
	left := 2
	if p.daemon.UnplugsVCPUs(t) {
		left = 1
	}
	r := p.requestSize(t, func(w *podapi.Desired) { w.VCPUs, w.Memory = 2, booted+64*mi })
	if r.State != podapi.StateFailed ||
		!strings.Contains(r.Error, "the guest uses 1 of its 2 vCPUs") {
		t.Errorf("report %+v, want it failed", r)
	}
	if a := r.Actual; a == nil || a.VCPUs != left || a.Online != 1 || a.Memory != uint64(booted) {
		t.Errorf("actual %+v, want %d vCPUs with 1 online, and %d bytes", a, left, booted)
	}
	if n := len(r.Steps); n != 5 || !r.Steps[n-2].Rollback || !r.Steps[n-1].Rollback {
		t.Errorf("steps %+v, want three steps and two rollbacks", r.Steps)
	}
	p.agent.setDesired(vcpus(0))
	p.testOfflineMemory(t)
	p.stop.Store(true)
	p.await(t, "the domain is destroyed", func(s virt.State) bool {
		return s.Phase == virt.ShutOff
	})
	p.daemon.AwaitConsole(t, "power button ignored")
}

// A guest that ignores the power button shuts down when the shim asks its guest agent next.
func TestSecondShutdownMethod(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.shutdown = shutdown.Options{
		Steps: []shutdown.Step{{Method: virt.ACPI, Timeout: 3 * time.Second},
			{Method: virt.GuestAgent}},
		Grace: 80 * time.Second, Resend: time.Second,
	}
	p.boot(t, headroom.Options{}, "guest.ignore-power-button")
	p.startShim(t)
	p.stop.Store(true)
	p.await(t, "the guest has shut down", func(s virt.State) bool {
		return s.Phase == virt.ShutOff
	})
	_, after, ignored := strings.Cut(p.daemon.Console(t), "power button ignored")
	if !ignored || !strings.Contains(after, "GUEST power off") {
		t.Errorf("console %q, want the power button ignored, then a power off", p.daemon.Console(t))
	}
}

// testOfflineMemory plugs memory that the guest keeps offline. It counts as the guest's memory,
// because neither QEMU nor libvirt shows the difference.
func (p *pod) testOfflineMemory(t *testing.T) {
	before := p.daemon.GuestMemory(t)
	if s := p.mustResize(t, guestMemory(2*booted)); s.Memory.Devices[0].Current != uint64(booted) {
		t.Errorf("memory %+v, want %d taken", s.Memory, booted)
	}
	if after := p.daemon.GuestMemory(t); after != before {
		t.Errorf("the guest uses %d bytes, want the %d from before", after, before)
	}
}
