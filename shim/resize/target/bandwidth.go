package target

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

// Limits of libvirt, in microseconds.
const (
	minPeriod = 1000
	maxPeriod = 1000000
	minQuota  = 1000

	// usualPeriod is the default of the kernel and of libvirt.
	usualPeriod = 100000
)

// Spread returns the bandwidth that gives the vCPUs together this CPU time: 1500 thousandths of a
// CPU for 2 vCPUs let each run for 75 ms in 100 ms. libvirt limits each vCPU on its own, so an idle
// vCPU leaves its time unused.
//
// A vCPU uses at most one CPU; with a share that high there is no limit. The errors are no CPU
// time, no vCPUs, and a share below 0.1 % of a CPU, which libvirt refuses.
func Spread(milli int64, vcpus int) (Bandwidth, error) {
	if milli <= 0 || vcpus <= 0 || vcpus > math.MaxInt64/1000 {
		return Bandwidth{}, fmt.Errorf("CPU bandwidth: %d thousandths of a CPU for %d vCPUs: "+
			"want at least 1 of each", milli, vcpus)
	}
	b, err := per(uint64(milli), uint64(vcpus)*1000)
	if err != nil {
		return Bandwidth{}, fmt.Errorf("CPU bandwidth: %d thousandths of a CPU for %d vCPUs: %w",
			milli, vcpus, err)
	}
	return b, nil
}

// Frequency returns the bandwidth that makes each vCPU as fast as a CPU of vm MHz, on a host with
// CPUs of host MHz, as CloudStack computes it. Frequency does not round the ratio. A slower host
// means no limit. The errors are a missing frequency and a ratio below 0.1 %.
func Frequency(vm, host int64) (Bandwidth, error) {
	if vm <= 0 || host <= 0 {
		return Bandwidth{}, fmt.Errorf("CPU bandwidth: %d MHz on a host with %d MHz: want both "+
			"to be known", vm, host)
	}
	b, err := per(uint64(vm), uint64(host))
	if err != nil {
		return Bandwidth{}, fmt.Errorf("CPU bandwidth: %d MHz on a host with %d MHz: %w",
			vm, host, err)
	}
	return b, nil
}

// per returns the bandwidth of n/d CPUs for each vCPU. The period is near the usual one, so that
// the quota is a whole number of microseconds and at least minQuota. If no period is exact, the
// quota is rounded down by less than a microsecond.
func per(n, d uint64) (Bandwidth, error) {
	if n >= d {
		return Bandwidth{Period: usualPeriod * time.Microsecond, Quota: virt.Unlimited}, nil
	}
	n, d = reduce(n, d)
	high, _ := bits.Mul64(minQuota, d)
	if high > 0 || n < d/minQuota || n*minQuota < d {
		return Bandwidth{},
			fmt.Errorf("less than 0.1 %% of a CPU for each vCPU: want at least that")
	}
	period := max(usualPeriod, (minQuota*d+n-1)/n)
	if whole := (period + d - 1) / d * d; whole <= min(2*period, maxPeriod) {
		period = whole
	}
	return Bandwidth{Period: microseconds(period), Quota: microseconds(mulDiv(period, n, d))}, nil
}

func reduce(n, d uint64) (uint64, uint64) {
	a, b := n, d
	for b > 0 {
		a, b = b, a%b
	}
	return n / a, d / a
}

// mulDiv is p * n / d, rounded down, for n < d.
func mulDiv(p, n, d uint64) uint64 {
	high, low := bits.Mul64(p, n)
	quotient, _ := bits.Div64(high, low, d)
	return quotient
}

func microseconds(n uint64) time.Duration { return time.Duration(n) * time.Microsecond }
