package target

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/mooring-vm/mooring/memlock/kubevirt"
)

// Overhead returns the bytes that a launcher needs in addition to a guest with this memory, in
// bytes, and these vCPUs. It must be pure, and must not fall for a larger guest.
type Overhead func(guest uint64, vcpus int) (uint64, error)

// Fixed returns an overhead that is the same for every guest.
func Fixed(bytes uint64) Overhead {
	return func(uint64, int) (uint64, error) { return bytes, nil }
}

// KubeVirt returns the overhead of a KubeVirt version for a VM like vm with another size
// ([kubevirt.Overhead]). Memory request and limit of vm keep their ratio to the guest's memory. If
// vm has no guest memory, they become the guest's memory. An absent request or limit stays absent;
// KubeVirt then counts no page tables.
func KubeVirt(vm kubevirt.VM, version kubevirt.Version, ratio kubevirt.Ratio) Overhead {
	return func(guest uint64, vcpus int) (uint64, error) {
		if guest > math.MaxInt64 || vcpus < 0 || uint64(vcpus) > math.MaxUint32 {
			return 0, fmt.Errorf("overhead of a guest with %d bytes and %d vCPUs: want at most "+
				"an int64 and a uint32", guest, vcpus)
		}
		sized := vm
		sized.CPU.Sockets, sized.CPU.Cores, sized.CPU.Threads = uint32(vcpus), 1, 1
		m := &sized.Memory
		m.Guest, m.MaxGuest = int64(guest), 0
		m.Request, m.Limit = scaled(m.Request, vm.Memory.Guest, guest),
			scaled(m.Limit, vm.Memory.Guest, guest)
		_, total, err := kubevirt.Overhead(sized, version, ratio)
		return uint64(total), err
	}
}

// scaled scales an amount like the guest's memory. It rounds up, to at most an int64.
func scaled(amount, before int64, guest uint64) int64 {
	if amount <= 0 {
		return amount // [kubevirt.Overhead] refuses negative amounts
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

// fit returns the largest guest within a memory limit, and its overhead.
func (g Guest) fit(limit uint64, vcpus int, overhead Overhead) (guest, beside uint64, err error) {
	low, high := uint64(0), limit // low <= guest <= high
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
		err = fmt.Errorf("memory limit: %s leaves nothing to the guest: the launcher needs %s "+
			"beside it", show(limit), show(beside))
	}
	return guest, beside, err
}
