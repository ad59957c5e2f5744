//go:build cgo && libvirt_dlopen

package coordinator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"libvirt.org/go/libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt/libvirttest"
)

// minInterval separates two resizes: QEMU reports changes of virtio-mem at most once a second.
const minInterval = 1200 * time.Millisecond

// samplesFile is the environment variable with the name of the file for `bin/bench resize`.
const samplesFile = "MOORING_SAMPLES"

// BenchmarkResize measures the time from the request to its confirmation. The guest confirms vCPUs
// and virtio-mem; libvirt confirms DIMMs and bandwidth. The shim and a minimal libvirt client take
// turns. A pause is the longest time between two heartbeats of the guest within a second, or within
// the whole resize if that takes longer. A heartbeat comes every 5 ms.
func BenchmarkResize(b *testing.B) {
	virtioMem, dimm := headroom.Options{Device: headroom.VirtioMem},
		headroom.Options{Device: headroom.DIMM, Slots: 2}
	memory := func(n int) func(*podapi.Desired) { return guestMemory(booted + int64(n%2)*128*mi) }
	all := results{}
	for _, kind := range []resizeKind{
		{"virtio-mem", virtioMem, 1, 32, (*rawLibvirt).memory, memory,
			[2]string{"128 MiB less, virtio-mem", "128 MiB more, virtio-mem"}},
		{"DIMM", dimm, 1, 32, (*rawLibvirt).dimm, memory,
			[2]string{"128 MiB less, a DIMM", "128 MiB more, a DIMM"}},
		{
			"bandwidth", virtioMem, 1, 32, (*rawLibvirt).bandwidth,
			func(n int) func(*podapi.Desired) {
				return quota(api.CPUQuota{Percent: []int{50, 80}[n%2]})
			}, [2]string{"changed CPU bandwidth", "changed CPU bandwidth"},
		},
		{
			"vCPU", virtioMem, 4, 6, (*rawLibvirt).vcpu,
			func(n int) func(*podapi.Desired) { return vcpus(n + 1) },
			[2]string{"one vCPU more", "one vCPU more"},
		},
	} {
		kind.measure(b, all)
	}
	if file := os.Getenv(samplesFile); file != "" && len(all) > 0 {
		all.save(b, file)
	}
}

// resizeKind is one kind of resize, with its number of guests and of rounds in each guest. The n of
// its functions counts from 1 in each guest.
type resizeKind struct {
	name           string
	device         headroom.Options
	guests, rounds int
	raw            func(*rawLibvirt, context.Context, int) error
	target         func(n int) func(*podapi.Desired)
	description    [2]string // by n%2
}

// measure runs all rounds in each guest per iteration.
func (k resizeKind) measure(b *testing.B, all results) {
	b.Helper()
	if os.Getenv("MOORING_QUICK") != "" {
		k.guests, k.rounds = 1, 4
	}
	for guest := range k.guests {
		b.Run(fmt.Sprintf("%s/%d", k.name, guest+1), func(b *testing.B) {
			for range b.N {
				k.inGuest(b, all)
			}
		})
	}
	for _, description := range slices.Compact(k.description[:]) {
		b.Logf("%s: direct libvirt call %v, the shim %v", description,
			all.samples(description, "libvirt"), all.samples(description, "shim"))
	}
}

func (k resizeKind) inGuest(b *testing.B, all results) {
	p := newPod(b)
	p.boot(b, k.device, "guest.heartbeat")
	raw, heart := newRaw(b, p.daemon.URI), p.daemon.Heartbeat(b)
	for n := 1; n <= k.rounds; n++ {
		description := k.description[n%2]
		if n%4 < 2 { // half of the resizes in each direction
			all.samples(description, "libvirt").add(b, heart,
				func() error { return k.raw(raw, b.Context(), n) })
			continue
		}
		p.agent.setDesired(func(w *podapi.Desired) { w.Size = api.Size{CPUShares: w.CPUShares} })
		p.startShim(b)
		p.await(b, "the guest answers", func(s virt.State) bool { return s.VCPUs.Online > 0 })
		all.samples(description, "shim").add(b, heart,
			func() error { return p.awaitDone(b.Context(), p.agent.setDesired(k.target(n))) })
		p.stopShim()
	}
}

// results are samples by description and program.
type results map[string]map[string]*samples

func (f results) samples(description, program string) *samples {
	if f[description] == nil {
		f[description] = map[string]*samples{}
	}
	if f[description][program] == nil {
		f[description][program] = &samples{}
	}
	return f[description][program]
}

func (f results) save(b *testing.B, file string) {
	b.Helper()
	data, err := json.Marshal(f)
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// samples are the measurements of one way to resize, in seconds.
type samples struct {
	Took   []float64 `json:"took"`
	Paused []float64 `json:"paused"`
}

func (s *samples) String() string {
	if len(s.Took) == 0 {
		return "not measured"
	}
	return fmt.Sprintf("%.1f ms, longest pause %.0f ms", 1000*median(s.Took), 1000*median(s.Paused))
}

func (s *samples) add(b *testing.B, heart *libvirttest.Heartbeat, do func() error) {
	b.Helper()
	time.Sleep(minInterval)
	heart.LongestGap()
	second, began := time.After(time.Second), time.Now()
	if err := do(); err != nil {
		b.Fatal(err)
	}
	s.Took = append(s.Took, time.Since(began).Seconds())
	<-second // all measurements of pauses cover at least a second
	s.Paused = append(s.Paused, heart.LongestGap().Seconds())
}

// awaitDone waits until the shim reports the resize as done.
func (p *pod) awaitDone(ctx context.Context, generation uint64) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		for _, r := range p.agent.allReports() {
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

// rawLibvirt resizes a VM with the fewest calls of libvirt.
type rawLibvirt struct {
	domain    *libvirt.Domain
	confirmed chan uint64 // sizes of virtio-mem confirmed by the guest, in KiB
	removed   chan string // aliases of unplugged devices
}

func newRaw(b *testing.B, uri string) *rawLibvirt {
	b.Helper()
	conn, err := libvirt.NewConnect(uri)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = conn.Close() })
	r := &rawLibvirt{confirmed: make(chan uint64, 64), removed: make(chan string, 64)}
	if r.domain, err = conn.LookupDomainByName(libvirttest.Name); err != nil {
		b.Fatal(err)
	}
	_, err = conn.DomainEventMemoryDeviceSizeChangeRegister(r.domain,
		func(_ *libvirt.Connect, _ *libvirt.Domain, e *libvirt.DomainEventMemoryDeviceSizeChange) {
			r.confirmed <- e.Size
		})
	if err != nil {
		b.Fatal(err)
	}
	_, err = conn.DomainEventDeviceRemovedRegister(r.domain,
		func(_ *libvirt.Connect, _ *libvirt.Domain, e *libvirt.DomainEventDeviceRemoved) {
			r.removed <- e.DevAlias
		})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// device returns the domain's first memory device.
func (r *rawLibvirt) device() (device libvirtxml.DomainMemorydev, err error) {
	text, err := r.domain.GetXMLDesc(0)
	if err != nil {
		return device, err
	}
	var definition libvirtxml.Domain
	if err := definition.Unmarshal(text); err != nil {
		return device, err
	}
	return definition.Devices.Memorydevs[0], nil
}

func (r *rawLibvirt) memory(ctx context.Context, n int) error {
	device, err := r.device()
	if err != nil {
		return err
	}
	size := uint(n%2) * 128 << 10
	device.Target.Requested = &libvirtxml.DomainMemorydevTargetRequested{Value: size, Unit: "KiB"}
	text, err := device.Marshal()
	if err != nil {
		return err
	}
	drain(r.confirmed)
	if err := r.domain.UpdateDeviceFlags(text, libvirt.DOMAIN_DEVICE_MODIFY_LIVE); err != nil {
		return err
	}
	for {
		select {
		case got := <-r.confirmed:
			if got == uint64(size) {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// drain discards events caused by the shim's turns.
func drain[T any](c <-chan T) {
	for len(c) > 0 {
		<-c
	}
}

func (r *rawLibvirt) dimm(ctx context.Context, n int) error {
	if n%2 == 1 {
		return r.domain.AttachDeviceFlags(
			`<memory model="dimm"><target><size `+
				`unit="MiB">128</size><node>0</node></target></memory>`,
			libvirt.DOMAIN_DEVICE_MODIFY_LIVE)
	}
	device, err := r.device()
	if err != nil {
		return err
	}
	text, err := device.Marshal()
	if err != nil {
		return err
	}
	drain(r.removed)
	if err := r.domain.DetachDeviceFlags(text, libvirt.DOMAIN_DEVICE_MODIFY_LIVE); err != nil {
		return err
	}
	select {
	case <-r.removed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *rawLibvirt) bandwidth(_ context.Context, n int) error {
	return r.domain.SetSchedulerParametersFlags(&libvirt.DomainSchedulerParameters{
		VcpuPeriodSet: true, VcpuPeriod: 100_000, VcpuQuotaSet: true,
		VcpuQuota: int64(50_000 + n%2*30_000),
	}, libvirt.DOMAIN_AFFECT_LIVE)
}

func (r *rawLibvirt) vcpu(ctx context.Context, n int) error {
	if err := r.domain.SetVcpusFlags(uint(n+1), libvirt.DOMAIN_VCPU_LIVE); err != nil {
		return err
	}
	for ctx.Err() == nil {
		guest, err := r.domain.GetGuestVcpus(0)
		if err == nil && len(slices.DeleteFunc(guest.Online, func(is bool) bool { return !is })) ==
			n+1 {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}
