package virttest

import (
	"fmt"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

const extraVCPUs = 2 // plugged and unplugged by the suite

func (f Fixture) testPlug(t *testing.T) {
	before := f.state(t).VCPUs
	n := before.Boot + extraVCPUs
	if !f.VCPUs {
		f.expectRefused(t, "vCPUs", f.Domain.SetVCPUs(t.Context(), n), virt.ErrUnsupported)
		return
	}
	for _, wrong := range []int{-1, 0, before.Maximum + 1} {
		f.expectRefused(t, "too few or too many vCPUs", f.Domain.SetVCPUs(t.Context(), wrong))
	}
	after := f.state(t).VCPUs
	if after.Plugged != before.Plugged || after.Maximum != before.Maximum {
		t.Errorf("%+v after refusals, %+v before", after, before)
	}
	if f.Agent {
		f.await(
			t, "the agent answers",
			func(s virt.State) bool { return s.VCPUs.Online == before.Plugged },
		)
	}
	must(t, f.Domain.SetVCPUs(t.Context(), n))
	f.expectDefinedVCPUs(t, n)
	online := virt.Unknown
	if f.Agent {
		online = n
	}
	f.await(
		t, "vCPUs are plugged, and online",
		func(s virt.State) bool { return s.VCPUs.Plugged == n && s.VCPUs.Online == online },
	)
	f.expectReadsAgree(t)
}

func (f Fixture) expectDefinedVCPUs(t *testing.T, vcpus int) {
	t.Helper()
	f.expectDefined(
		t, fmt.Sprintf("%d vCPUs", vcpus),
		func(s virt.State) bool { return s.VCPUs.Plugged == vcpus },
	)
}

func (f Fixture) testUnplug(t *testing.T) {
	if !f.VCPUs {
		return
	}
	boot := f.state(t).VCPUs.Boot
	err := f.Domain.SetVCPUs(t.Context(), boot)
	if !f.Unplug {
		f.expectRefused(t, "unplug that the guest refuses", err, virt.ErrUnconfirmed)
		if v := f.state(t).VCPUs; v.Plugged != boot+extraVCPUs {
			t.Errorf("%+v, want %d plugged", v, boot+extraVCPUs)
		}
		f.expectDefinedVCPUs(t, boot+extraVCPUs)
		return
	}
	must(t, err)
	f.expectDefinedVCPUs(t, boot)
	f.await(t, "vCPUs are unplugged, and the guest uses the rest", func(s virt.State) bool {
		return s.VCPUs.Plugged == boot && (!f.Agent || s.VCPUs.Online == boot)
	})
}

func (f Fixture) testBandwidth(t *testing.T) {
	set := func(b virt.Bandwidth) error { return f.Domain.SetBandwidth(t.Context(), b) }
	const period, quota, shares = 100 * time.Millisecond, 50 * time.Millisecond, 2048
	if !f.Bandwidth {
		f.expectRefused(t, "bandwidth", set(virt.Bandwidth{Quota: quota}), virt.ErrUnsupported)
		f.expectRefused(t, "shares", set(virt.Bandwidth{Shares: shares}), virt.ErrUnsupported)
		return
	}
	expect := func(what string, want virt.Bandwidth) {
		t.Helper()
		want.Supported = true
		if got := f.state(t).Bandwidth; got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
		f.expectDefined(t, what, func(s virt.State) bool { return s.Bandwidth == want })
	}
	must(t, set(virt.Bandwidth{Period: period, Quota: quota, Shares: shares}))
	expect("all", virt.Bandwidth{Period: period, Quota: quota, Shares: shares})
	must(t, set(virt.Bandwidth{Quota: 2 * quota}))
	expect("the quota alone", virt.Bandwidth{Period: period, Quota: 2 * quota, Shares: shares})
	must(t, set(virt.Bandwidth{Quota: virt.Unlimited}))
	expect("no limit", virt.Bandwidth{Period: period, Quota: virt.Unlimited, Shares: shares})
	must(t, set(virt.Bandwidth{Shares: 2}))
	expect("the shares alone", virt.Bandwidth{Period: period, Quota: virt.Unlimited, Shares: 2})
	must(t, set(virt.Bandwidth{Shares: 10000}))
	for _, wrong := range []virt.Bandwidth{
		{}, {Period: -1}, {Quota: -2}, {Period: time.Hour}, {Quota: time.Microsecond}, {Quota: 1},
		{Shares: 1 << 20},
	} {
		f.expectRefused(t, "a wrong bandwidth", set(wrong))
	}
	expect("after refusals", virt.Bandwidth{Period: period, Quota: virt.Unlimited, Shares: 10000})
}
