//go:build cgo && libvirt_dlopen

package coordinator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/virt"
)

func vcpus(n int) func(*podapi.Desired) { return func(w *podapi.Desired) { w.VCPUs = n } }
func guestMemory(n int64) func(*podapi.Desired) {
	return func(w *podapi.Desired) { w.Memory = api.Bytes(n) }
}
func quota(q api.CPUQuota) func(*podapi.Desired) {
	return func(w *podapi.Desired) { w.CPUQuota = q }
}

// TestVirtioMem resizes one guest in every way that it supports. In the end the guest shuts down.
func TestVirtioMem(t *testing.T) {
	p := start(t, headroom.Options{Device: headroom.VirtioMem})
	for _, test := range []struct {
		name string
		f    func(*pod, *testing.T)
	}{
		{"vCPUs are plugged", (*pod).testPlug},
		{"memory grows and shrinks", (*pod).testMemory},
		{"memory falls below the boot size by the balloon", (*pod).testBalloon},
		{"bandwidth is set, changed and removed", (*pod).testBandwidth},
		{"impossible sizes are refused", (*pod).testRefused},
		{"the desired size changes during a resize", (*pod).testChangedTarget},
		{"the container's limit is lowered between steps", (*pod).testLoweredLimit},
		{"the shim ends between steps", (*pod).testRestartedShim},
		{"libvirtd is killed between steps", (*pod).testKilledLibvirtd},
		{"vCPUs are unplugged", (*pod).testUnplug},
		{"the guest shuts down", (*pod).testShutdown},
	} {
		if !t.Run(test.name, func(t *testing.T) { test.f(p, t) }) {
			return // the next test needs the guest in the state of this one
		}
	}
}

// testPlug also expects the bandwidth spread over the new vCPUs.
func (p *pod) testPlug(t *testing.T) {
	limits := p.daemon.HasCPUController()
	if limits {
		p.mustResize(t, quota(api.CPUQuota{Percent: 200}))
	}
	s := p.mustResize(t, vcpus(4))
	if s.VCPUs.Plugged != 4 || s.VCPUs.Online != 4 {
		t.Errorf("vCPUs %+v, want 4 in use", s.VCPUs)
	}
	if limits && s.Bandwidth.Quota != s.Bandwidth.Period/2 {
		t.Errorf("bandwidth %+v, want 2 CPUs for 4 vCPUs", s.Bandwidth)
	}
	p.daemon.AwaitConsole(t, "cpus=0-3")
}

// testUnplug expects the actual size in the report if QEMU cannot unplug vCPUs.
func (p *pod) testUnplug(t *testing.T) {
	report := p.requestSize(t, vcpus(2))
	s := p.read(t)
	if p.daemon.UnplugsVCPUs(t) {
		if report.State != podapi.StateDone || s.VCPUs.Plugged != 2 || s.VCPUs.Online != 2 {
			t.Errorf("report %+v, vCPUs %+v, want 2 in use", report, s.VCPUs)
		}
		return
	}
	if report.State != podapi.StateFailed ||
		!strings.Contains(report.Error, "the domain has 4 vCPUs: want 2") {
		t.Errorf("report %+v, want a failure", report)
	}
	if a := report.Actual; a == nil || a.VCPUs != 4 || s.VCPUs.Plugged != 4 {
		t.Errorf("actual %+v, vCPUs %+v, want the actual 4", a, s.VCPUs)
	}
}

func (p *pod) testMemory(t *testing.T) {
	before := p.daemon.GuestMemory(t)
	if s := p.mustResize(t, guestMemory(2*booted)); s.Memory.Balloon != uint64(2*booted) {
		t.Errorf("memory %+v, want twice the boot memory", s.Memory)
	}
	p.awaitGuest(t, before+booted)
	if s := p.mustResize(t, guestMemory(booted)); s.Memory.Balloon != uint64(booted) {
		t.Errorf("memory %+v, want the boot memory", s.Memory)
	}
	p.awaitGuest(t, before)
}

// testBalloon: the balloon serves sizes below the boot memory, the device larger sizes. The guest's
// driver reports the size of the balloon.
func (p *pod) testBalloon(t *testing.T) {
	p.stopShim()
	p.policy.Balloon = true
	p.startShim(t)
	for _, bytes := range []int64{booted - 64*mi, booted + 64*mi, booted} {
		s := p.mustResize(t, guestMemory(bytes))
		if plugged := uint64(max(bytes, booted) - booted); s.Memory.Balloon != uint64(bytes) ||
			s.Memory.Devices[0].Current != plugged {
			t.Errorf("memory %+v, want %d with %d plugged", s.Memory, bytes, plugged)
		}
	}
	p.stopShim()
	p.policy.Balloon = false
	p.startShim(t)
}

// awaitGuest waits until the guest has this much memory, less up to 16 MiB for its own management.
func (p *pod) awaitGuest(t *testing.T, want int64) {
	t.Helper()
	var got int64
	eventually(t, func() bool {
		got = p.daemon.GuestMemory(t)
		return got <= want && got > want-16*mi
	}, func() { t.Fatalf("the guest has %d bytes, want %d", got, want) })
}

// testBandwidth also sets shares, in the same call.
func (p *pod) testBandwidth(t *testing.T) {
	if !p.daemon.HasCPUController() {
		t.Skip("missing: a CPU controller for libvirt")
	}
	for _, step := range []struct {
		quota  api.CPUQuota
		shares int
		want   time.Duration // of 100 ms, for each of 4 vCPUs
	}{
		{api.CPUQuota{Percent: 150}, 200, 37500 * time.Microsecond},
		{api.CPUQuota{Percent: 60}, 10000, 15 * time.Millisecond}, {api.CPUQuota{Percent: 60}, 2,
			15 * time.Millisecond}, {api.CPUQuota{None: true}, 1024, virt.Unlimited},
	} {
		report := p.requestSize(t, func(w *podapi.Desired) {
			w.CPUQuota, w.CPUShares = step.quota, step.shares
		})
		want := virt.Bandwidth{Period: 100 * time.Millisecond, Quota: step.want,
			Shares: uint64(step.shares), Supported: true}
		if got := p.read(t).Bandwidth; report.State != podapi.StateDone || len(report.Steps) != 1 ||
			got != want {
			t.Errorf("%+v, want %+v by one step: %+v", got, want, report)
		}
	}
}

func (p *pod) testRefused(t *testing.T) {
	for _, c := range []struct {
		change func(*podapi.Desired)
		want   string
	}{
		{guestMemory(2 * gi), "exceeds the capacity of the guest's virtio-mem devices, 1Gi"},
		{guestMemory(128 * mi), "128Mi is below the boot memory, 256Mi"},
		{guestMemory(4 * gi), "memory.resize.mooring.dev"},
	} {
		p.expectRefused(t, c.change, c.want)
	}
	p.mustResize(t, guestMemory(booted))
}

// expectRefused expects a refusal with this reason, and an unchanged VM.
func (p *pod) expectRefused(t *testing.T, change func(*podapi.Desired), why string) {
	t.Helper()
	before := p.read(t)
	if r := p.requestSize(t, change); r.State != podapi.StateRefused ||
		!strings.Contains(r.Error, why) || len(r.Steps) > 0 {
		t.Errorf("report %+v, want it refused because of %q", r, why)
	}
	if after := p.read(t); after.Memory.Balloon != before.Memory.Balloon ||
		len(after.Memory.Devices) != len(before.Memory.Devices) {
		t.Errorf("memory %+v, was %+v", after.Memory, before.Memory)
	}
}

// testShutdown requests a stop by the pod. The guest obeys the power button.
func (p *pod) testShutdown(t *testing.T) {
	p.stop.Store(true)
	p.await(t, "the guest has shut down", func(s virt.State) bool {
		return s.Phase == virt.ShutOff
	})
	p.daemon.AwaitConsole(t, "GUEST power off")
}

// testAgentStop requests a stop by the agent. The guest obeys the power button.
func (p *pod) testAgentStop(t *testing.T) {
	p.agent.sendStop(podapi.Stop{Requested: true, Reason: "the launcher hangs, and the policy " +
		"says stop", Seconds: 600})
	p.await(t, "the guest has shut down", func(s virt.State) bool {
		return s.Phase == virt.ShutOff
	})
	p.daemon.AwaitConsole(t, "GUEST power off")
}

// TestDIMM resizes a guest that grows by DIMMs and has one slot. In the end the agent requests a
// stop.
func TestDIMM(t *testing.T) {
	p := start(t, headroom.Options{Device: headroom.DIMM, Slots: 1})
	p.testMemory(t)
	if s := p.mustResize(t, guestMemory(booted+129*mi)); s.Memory.Balloon != uint64(booted+128*mi) {
		t.Errorf("memory %+v, want whole blocks of 128 MiB", s.Memory)
	}
	p.mustResize(t, guestMemory(booted))
	p.mustResize(t, guestMemory(booted+128*mi))
	p.expectRefused(t, guestMemory(2*booted), "all 1 memory slots of the domain are in use")
	p.mustResize(t, guestMemory(booted))
	p.testAgentStop(t)
}

// TestKubeVirtDomain resizes a guest with the headroom that KubeVirt defines: a maximum memory, and
// no memory device until the first growth.
func TestKubeVirtDomain(t *testing.T) {
	p := newPod(t)
	p.daemon.RequireAttach(t)
	vm := p.daemon.LinuxVM(t)
	vm.KubeVirt, vm.Memory = true, int(booted/mi)
	p.bootXML(t, vm.XML(t))
	p.startShim(t)
	p.testMemory(t)
	devices := p.read(t).Memory.Devices
	if len(devices) != 1 || devices[0].Size != uint64(gi-booted) {
		t.Errorf("devices %+v, want one up to the maximum of 1Gi", devices)
	}
	p.expectRefused(t, guestMemory(2*gi), "exceeds the capacity")
}
