package target

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/mooring-vm/mooring/memlock/kubevirt"
)

// Overhead computes what a launcher needs beside a guest of so many bytes and vCPUs, in
// bytes. It must be pure, and no less for a larger guest.
type Overhead func(guest uint64, vcpus int) (uint64, error)

// Fixed is an overhead that is the same for every guest.
func Fixed(bytes uint64) Overhead {
	return func(uint64, int) (uint64, error) { return bytes, nil }
}

// KubeVirt is what KubeVirt, in that version, adds for a VM like vm with another size
// ([kubevirt.Overhead]). Where vm has a guest's memory, a memory request and limit of
// another size keep their proportion to it; else they become the guest's memory. One that
// vm has not stays empty, as KubeVirt then counts no page tables.
func KubeVirt(vm kubevirt.VM, version kubevirt.Version, ratio kubevirt.Ratio) Overhead {
	return func(guest uint64, vcpus int) (uint64, error) {
		if guest > math.MaxInt64 || vcpus < 0 || uint64(vcpus) > math.MaxUint32 {
			return 0, fmt.Errorf("overhead of a guest with %d bytes and %d vCPUs: want at most an int64 and a uint32", guest, vcpus)
		}
		sized := vm
		sized.CPU.Sockets, sized.CPU.Cores, sized.CPU.Threads = uint32(vcpus), 1, 1
		m := &sized.Memory
		m.Guest, m.MaxGuest = int64(guest), 0
		m.Request, m.Limit = scaled(m.Request, vm.Memory.Guest, guest), scaled(m.Limit, vm.Memory.Guest, guest)
		_, total, err := kubevirt.Overhead(sized, version, ratio)
		return uint64(total), err
	}
}

// scaled is what becomes of an amount beside a guest's memory when that becomes another.
// It is rounded up, and at most an int64.
func scaled(amount, before int64, guest uint64) int64 {
	if amount <= 0 {
		return amount // [kubevirt.Overhead] refuses what is negative
	}
	if before <= 0 {
		return int64(guest)
	}
	high, low := bits.Mul64(uint64(amount), guest)
	if high >= uint64(before) {
		return math.MaxInt64
	}
	quotient, rest := bits.Div64(high, low, uint64(before))
	if rest > 0 {
		quotient++
	}
	return int64(min(quotient, math.MaxInt64))
}

// fit returns the largest guest that fits a memory limit with its overhead, and that
// overhead.
func (g Guest) fit(limit uint64, vcpus int, overhead Overhead) (guest, beside uint64, err error) {
	low, high := uint64(0), limit // the guest is at least low, and less than high + 1
	for low < high {
		middle := low + (high-low+1)/2
		if beside, err = overhead(middle, vcpus); err != nil {
			return 0, 0, err
		}
		if beside <= limit-middle {
			low = middle
		} else {
			high = middle - 1
		}
	}
	guest = g.down(low)
	beside, err = overhead(guest, vcpus)
	if err == nil && (guest == 0 || guest > low || beside > limit-guest) {
		err = fmt.Errorf("memory limit: %s leaves nothing to the guest: the launcher needs %s beside it", show(limit), show(beside))
	}
	return guest, beside, err
}
