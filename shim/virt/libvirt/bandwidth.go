//go:build cgo && libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"libvirt.org/go/libvirt"

	"github.com/mooring-vm/mooring/shim/virt"
)

// unlimitedQuota is libvirt's largest quota, 2^44-1. It means "no limit" in every version. -1 fails
// with cgroup v2 in libvirt 8.9 and older (libvirt issue 324), and 0 keeps the current quota.
const unlimitedQuota = 17592186044415

// SetBandwidth sets all fields in one call.
func (d *domain) SetBandwidth(ctx context.Context, b virt.Bandwidth) error {
	params, err := schedulerParameters(b)
	if err != nil {
		return fmt.Errorf("domain %s: set CPU bandwidth: %w", d.name, err)
	}
	action := fmt.Sprintf(
		"set CPU bandwidth to period %s, quota %s, shares %d", b.Period, b.Quota, b.Shares,
	)
	return d.change(
		ctx,
		action,
		func(handle *libvirt.Domain, impact libvirt.DomainModificationImpact) error {
			return asNoCgroup(handle, handle.SetSchedulerParametersFlags(params, impact))
		},
	)
}

// asNoCgroup adds [virt.ErrUnsupported] if libvirt cannot use the CPU controller. libvirt has one
// error code for this case and for a domain that does not run.
func asNoCgroup(handle *libvirt.Domain, err error) error {
	if !hasCode(err, libvirt.ERR_OPERATION_INVALID) {
		return err
	}
	if active, activeErr := handle.IsActive(); activeErr != nil || !active {
		return err
	}
	return fmt.Errorf("%w: %w", virt.ErrUnsupported, classified(err))
}

func schedulerParameters(b virt.Bandwidth) (*libvirt.DomainSchedulerParameters, error) {
	switch {
	case b.Period == 0 && b.Quota == 0 && b.Shares == 0:
		return nil, errors.New("want at least one of period, quota and shares")
	case b.Period < 0 || b.Period%time.Microsecond != 0:
		return nil, fmt.Errorf("period %d ns: want whole microseconds", b.Period)
	case b.Quota != virt.Unlimited && (b.Quota < 0 || b.Quota%time.Microsecond != 0):
		return nil, fmt.Errorf("quota %d ns: want whole microseconds, or unlimited", b.Quota)
	}
	p := &libvirt.DomainSchedulerParameters{
		VcpuPeriodSet: b.Period != 0, VcpuPeriod: uint64(b.Period.Microseconds()),
		VcpuQuotaSet: b.Quota != 0, VcpuQuota: b.Quota.Microseconds(),
		CpuSharesSet: b.Shares != 0, CpuShares: b.Shares,
	}
	if b.Quota == virt.Unlimited {
		p.VcpuQuota = unlimitedQuota
	}
	return p, nil
}

// bandwidthReader reads the scheduler parameters of the domains of one connection.
type bandwidthReader struct {
	// unsupported is true for a libvirt in session mode. libvirt logs each refused call as an
	// error, and in KubeVirt this is the log of virt-launcher. So a connection asks once.
	unsupported atomic.Bool
}

// read returns a zero Bandwidth for a domain without a cgroup, and with libvirt's test driver,
// which rejects the binding's flags.
func (r *bandwidthReader) read(
	get func() (*libvirt.DomainSchedulerParameters, error),
) (virt.Bandwidth, error) {
	if r.unsupported.Load() {
		return virt.Bandwidth{}, nil
	}
	params, err := get()
	if hasCode(err, libvirt.ERR_OPERATION_UNSUPPORTED, libvirt.ERR_NO_SUPPORT) {
		r.unsupported.Store(true)
	}
	if hasCode(err, libvirt.ERR_OPERATION_UNSUPPORTED, libvirt.ERR_NO_SUPPORT,
		libvirt.ERR_OPERATION_INVALID, libvirt.ERR_INVALID_ARG) {
		return virt.Bandwidth{}, nil
	}
	if err != nil {
		return virt.Bandwidth{}, err
	}
	return bandwidthFromParameters(params), nil
}

func bandwidthFromParameters(p *libvirt.DomainSchedulerParameters) virt.Bandwidth {
	b := virt.Bandwidth{
		Period: time.Duration(p.VcpuPeriod) * time.Microsecond,
		Quota:  virt.Unlimited,
		Shares: p.CpuShares,
		// Other hypervisors have other scheduler parameters.
		Supported: p.VcpuPeriodSet && p.VcpuQuotaSet,
	}
	if p.VcpuQuota > 0 && p.VcpuQuota < unlimitedQuota {
		b.Quota = time.Duration(p.VcpuQuota) * time.Microsecond
	}
	if !b.Supported {
		return virt.Bandwidth{}
	}
	return b
}
