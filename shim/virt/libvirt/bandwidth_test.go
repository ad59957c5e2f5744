//go:build cgo && libvirt_dlopen

package libvirt

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"libvirt.org/go/libvirt"

	"github.com/mooring-vm/mooring/shim/virt"
)

func TestSchedulerParameters(t *testing.T) {
	for name, c := range map[string]struct {
		bandwidth virt.Bandwidth
		want      libvirt.DomainSchedulerParameters
	}{
		"all": {
			virt.Bandwidth{
				Period: 100 * time.Millisecond,
				Quota:  50 * time.Millisecond,
				Shares: 10,
			},
			libvirt.DomainSchedulerParameters{
				VcpuPeriodSet: true, VcpuPeriod: 100000, VcpuQuotaSet: true, VcpuQuota: 50000,
				CpuSharesSet: true, CpuShares: 10,
			},
		},
		"quota alone": {
			virt.Bandwidth{Quota: time.Millisecond},
			libvirt.DomainSchedulerParameters{VcpuQuotaSet: true, VcpuQuota: 1000},
		},
		"shares alone": {
			virt.Bandwidth{Shares: 2},
			libvirt.DomainSchedulerParameters{CpuSharesSet: true, CpuShares: 2},
		},
		"no limit": {
			virt.Bandwidth{Quota: virt.Unlimited},
			libvirt.DomainSchedulerParameters{VcpuQuotaSet: true, VcpuQuota: 17592186044415},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := schedulerParameters(c.bandwidth)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// libvirt's versions report an unlimited quota in three ways.
func TestUnlimitedQuota(t *testing.T) {
	for _, quota := range []int64{-1, 0, 17592186044415} {
		got := bandwidthFromParameters(
			&libvirt.DomainSchedulerParameters{
				VcpuPeriodSet: true,
				VcpuPeriod:    100000,
				VcpuQuotaSet:  true,
				VcpuQuota:     quota,
			},
		)
		want := virt.Bandwidth{
			Period: 100 * time.Millisecond, Quota: virt.Unlimited, Supported: true,
		}
		if got != want {
			t.Errorf("quota %d: %+v, want %+v", quota, got, want)
		}
	}
}

// libvirt in session mode logs each refused call as an error, so a connection asks once. Other
// errors may pass.
func TestBandwidthIsAskedForOnce(t *testing.T) {
	for name, c := range map[string]struct {
		code libvirt.ErrorNumber
		want int // calls for three reads
	}{
		"session mode":    {libvirt.ERR_OPERATION_UNSUPPORTED, 1},
		"other driver":    {libvirt.ERR_NO_SUPPORT, 1},
		"not running now": {libvirt.ERR_OPERATION_INVALID, 3},
	} {
		var r bandwidthReader
		calls := 0
		for range 3 {
			b, err := r.read(func() (*libvirt.DomainSchedulerParameters, error) {
				calls++
				return nil, libvirt.Error{Code: c.code}
			})
			if err != nil || b.Supported {
				t.Errorf("%s: got %+v, %v", name, b, err)
			}
		}
		if calls != c.want {
			t.Errorf("%s: %d calls, want %d", name, calls, c.want)
		}
	}
	var r bandwidthReader
	b, err := r.read(func() (*libvirt.DomainSchedulerParameters, error) {
		return &libvirt.DomainSchedulerParameters{VcpuPeriodSet: true, VcpuPeriod: 100000,
			VcpuQuotaSet: true, VcpuQuota: 50000}, nil
	})
	if err != nil || !b.Supported || b.Quota != 50*time.Millisecond {
		t.Errorf("system mode: got %+v, %v", b, err)
	}
}
