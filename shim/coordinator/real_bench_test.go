//go:build cgo && libvirt_dlopen

package coordinator_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt/libvirttest"
)

// BenchmarkResize is the time from the request to what confirms it: the guest, for
// memory and vCPUs, and libvirt, for bandwidth. Each is done in turns by the sidecar, and
// by the least that does it through libvirt alone. The figures are medians, but for the
// pause, which is the longest time without a beat of the guest's heart in a second or as
// long as it takes. There is a beat every 5 ms.
func BenchmarkResize(b *testing.B) {
	for _, kind := range []resizeKind{
		{"virtio-mem", 8, (*rawLibvirt).memory, func(n int) func(*podapi.Wanted) { return guestMemory(booted + int64(n%2)*128*mi) }},
		{"bandwidth", 20, (*rawLibvirt).bandwidth, func(n int) func(*podapi.Wanted) { return quota([]string{"50%", "80%"}[n%2]) }},
		{"vCPU", 6, (*rawLibvirt).vcpu, func(n int) func(*podapi.Wanted) { return vcpus(n + 1) }},
	} {
		b.Run(kind.name, func(b *testing.B) { kind.measure(b) })
	}
}

// resizeKind is what is resized. The n of its functions counts from 1.
type resizeKind struct {
	name   string
	rounds int
	raw    func(*rawLibvirt, context.Context, int) error
	wish   func(n int) func(*podapi.Wanted)
}

// measure takes all rounds for one iteration: a guest boots for each.
func (k resizeKind) measure(b *testing.B) {
	for range b.N {
		p := newPod(b)
		p.boot(b, headroom.Options{Device: headroom.VirtioMem}, "guest.heartbeat")
		raw, heart := newRaw(b, p.daemon.URI), p.daemon.Heart(b)
		var alone, shim samples
		for n := 1; n <= k.rounds; n++ {
			if n%4 < 2 { // of up and down, each has as much
				alone.add(b, heart, func() error { return k.raw(raw, b.Context(), n) })
				continue
			}
			p.agent.want(func(w *podapi.Wanted) { w.VCPUs, w.Memory, w.CPUQuota = 0, 0, "" })
			p.run(b)
			p.await(b, "the guest answers", func(s virt.State) bool { return s.VCPUs.Online > 0 })
			shim.add(b, heart, func() error { return p.resized(b.Context(), p.agent.want(k.wish(n))) })
			p.end()
		}
		b.Logf("without a beat: libvirt alone %v, the shim %v", alone.paused, shim.paused)
		of, by := median(alone.took), median(shim.took)
		b.ReportMetric(of, "libvirt-ms")
		b.ReportMetric(by, "shim-ms")
		b.ReportMetric(by/of, "shim/libvirt")
		b.ReportMetric(slices.Max(alone.paused).Seconds()*1000, "libvirt-pause-ms")
		b.ReportMetric(slices.Max(shim.paused).Seconds()*1000, "shim-pause-ms")
	}
}

// samples are of one way to resize.
type samples struct{ took, paused []time.Duration }

func (s *samples) add(b *testing.B, heart *libvirttest.Heart, do func() error) {
	b.Helper()
	heart.Longest()
	second, began := time.After(time.Second), time.Now()
	if err := do(); err != nil {
		b.Fatal(err)
	}
	s.took = append(s.took, time.Since(began))
	<-second // what takes longer is not to meet with more of the machine's own pauses
	s.paused = append(s.paused, heart.Longest())
}

// median returns milliseconds.
func median(of []time.Duration) float64 {
	slices.Sort(of)
	return of[len(of)/2].Seconds() * 1000
}

// resized waits until people are told that it is done.
func (p *pod) resized(ctx context.Context, generation uint64) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		for _, r := range p.agent.told() {
			switch {
			case r.Generation != generation:
			case r.State == podapi.StateDone:
				return nil
			case r.State == podapi.StateFailed, r.State == podapi.StateRefused:
				return errors.New(r.Error)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// rawLibvirt is the least that resizes a VM.
type rawLibvirt struct {
	domain *libvirt.Domain
	taken  chan uint64 // sizes of virtio-mem that the guest has confirmed, in KiB
}

func newRaw(b *testing.B, uri string) *rawLibvirt {
	b.Helper()
	conn, err := libvirt.NewConnect(uri)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = conn.Close() })
	r := &rawLibvirt{taken: make(chan uint64, 64)}
	if r.domain, err = conn.LookupDomainByName(libvirttest.Name); err != nil {
		b.Fatal(err)
	}
	_, err = conn.DomainEventMemoryDeviceSizeChangeRegister(r.domain,
		func(_ *libvirt.Connect, _ *libvirt.Domain, e *libvirt.DomainEventMemoryDeviceSizeChange) {
			r.taken <- e.Size
		})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func (r *rawLibvirt) memory(ctx context.Context, n int) error {
	text, err := r.domain.GetXMLDesc(0)
	if err != nil {
		return err
	}
	var definition libvirtxml.Domain
	if err := definition.Unmarshal(text); err != nil {
		return err
	}
	device, size := definition.Devices.Memorydevs[0], uint(n%2)*128<<10
	device.Target.Requested = &libvirtxml.DomainMemorydevTargetRequested{Value: size, Unit: "KiB"}
	if text, err = device.Marshal(); err != nil {
		return err
	}
	for len(r.taken) > 0 {
		<-r.taken // of the sidecar's turns
	}
	if err := r.domain.UpdateDeviceFlags(text, libvirt.DOMAIN_DEVICE_MODIFY_LIVE); err != nil {
		return err
	}
	for {
		select {
		case got := <-r.taken:
			if got == uint64(size) {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *rawLibvirt) bandwidth(_ context.Context, n int) error {
	return r.domain.SetSchedulerParametersFlags(&libvirt.DomainSchedulerParameters{
		VcpuPeriodSet: true, VcpuPeriod: 100_000, VcpuQuotaSet: true, VcpuQuota: int64(50_000 + n%2*30_000),
	}, libvirt.DOMAIN_AFFECT_LIVE)
}

func (r *rawLibvirt) vcpu(ctx context.Context, n int) error {
	if err := r.domain.SetVcpusFlags(uint(n+1), libvirt.DOMAIN_VCPU_LIVE); err != nil {
		return err
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		<-tick.C
		guest, err := r.domain.GetGuestVcpus(0)
		if err == nil && len(slices.DeleteFunc(guest.Online, func(is bool) bool { return !is })) == n+1 {
			return nil
		}
	}
	return ctx.Err()
}
