//go:build cgo && libvirt_dlopen

package coordinator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	rawlibvirt "libvirt.org/go/libvirt"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/virt/libvirt/libvirttest"
)

// A busy guest gets the CPU time of its quota, and does the corresponding work. On a busy machine
// it may get less, but never more.
func TestMeasuredBandwidth(t *testing.T) {
	p := newPod(t)
	if !p.daemon.HasCPUController() {
		t.Skip("missing: a CPU controller for libvirt")
	}
	p.boot(t, headroom.Options{}, "guest.busy")
	p.startShim(t)
	p.daemon.AwaitConsole(t, "GUEST work=1 ")
	before := cpuShare{}
	for _, step := range []struct {
		quota       api.CPUQuota
		most, least float64 // CPUs
	}{{api.CPUQuota{Percent: 5}, 0.05, 0}, {api.CPUQuota{Percent: 15}, 0.15, 0.07},
		{api.CPUQuota{None: true}, 1, 0.21}} {
		p.mustResize(t, quota(step.quota))
		got := p.awaitShare(t, step.least, 1.2*before.workRate)
		t.Logf("with %s: %+v", step.quota, got)
		if got.cpus > 1.3*step.most || step.quota.None && got.throttled > 0 {
			t.Errorf("with %s: %+v, want at most %.2f CPUs", step.quota, got, step.most)
		}
		before = got
	}
}

// cpuShare is the CPU time and the work of a guest during a measurement.
type cpuShare struct {
	cpus      float64
	workRate  float64 // units of work per second
	throttled int     // how often the kernel throttled it
}

// awaitShare measures until the guest gets more than the given CPUs and does more than the given
// work. It fails if the quota throttles the guest, and skips the test if the machine has no more
// CPU time.
func (p *pod) awaitShare(t *testing.T, cpus, workRate float64) (got cpuShare) {
	t.Helper()
	for range 20 {
		if got = p.measureShare(t); got.cpus > cpus && got.workRate > workRate {
			return got
		}
		if got.throttled > 10 { // of 20 periods: the guest used its whole quota in each of them
			t.Errorf("%+v, want more than %.2f CPUs and %.1f units of work per second", got,
				cpus, workRate)
		}
	}
	if !t.Failed() {
		t.Skipf("missing: CPU time for a guest that is not throttled and gets %+v", got)
	}
	return got
}

// measureShare measures for 20 periods. It starts the clock early and stops it late, so the result
// is rather too low.
func (p *pod) measureShare(t *testing.T) cpuShare {
	t.Helper()
	began := time.Now()
	used, done, throttled := p.vcpuTime(t), p.workDone(t), p.daemon.ThrottledCount(t)
	<-time.After(20 * 100 * time.Millisecond)
	used, done, throttled = p.vcpuTime(t)-used, p.workDone(t)-done,
		p.daemon.ThrottledCount(t)-throttled
	took := time.Since(began).Seconds()
	return cpuShare{cpus: used.Seconds() / took, workRate: float64(done) / took,
		throttled: throttled}
}

// vcpuTime returns the CPU time of the first vCPU.
func (p *pod) vcpuTime(t *testing.T) (cpu time.Duration) {
	t.Helper()
	p.daemon.WithConnect(t, func(conn *rawlibvirt.Connect) error {
		d, err := conn.LookupDomainByName(libvirttest.Name)
		if err != nil {
			return err
		}
		vcpus, err := d.GetVcpus()
		if err == nil {
			cpu = time.Duration(vcpus[0].CpuTime)
		}
		return err
	})
	return cpu
}

// workDone returns the units of work that the guest has printed.
func (p *pod) workDone(t *testing.T) (n int) {
	t.Helper()
	console := p.daemon.Console(t)
	if at := strings.LastIndex(console, "work="); at >= 0 {
		_, _ = fmt.Sscanf(console[at:], "work=%d", &n) // an incomplete line yields a smaller number
	}
	return n
}
