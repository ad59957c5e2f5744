package host

import "math"

// Bound is the memory that the processes of one launcher can have, and so lock, together.
// RLIMIT_MEMLOCK only bounds each process.
type Bound struct {
	Memory    int64 // memory limit of the container in bytes; 0 or less: none
	HugePages int64 // huge-page limit in bytes; the memory limit does not include it
	Outside   bool  // the VM runs outside of the container, in the node's libvirt
}

// Charge returns the bytes that the node's account counts for a launcher with this memory lock: its
// memory limit and huge pages. Without a memory limit it counts the lock, or 0 if the lock is
// unlimited. With a VM outside it counts the larger of both. In these two cases bounded is false:
// the processes together may lock more.
func (b Bound) Charge(lock Limit) (bytes int64, bounded bool) {
	var inside int64
	if b.Memory > 0 {
		inside = addBytes(b.Memory, b.HugePages)
	}
	bounded = b.Memory > 0 && !b.Outside
	if bounded || lock == Unlimited {
		return inside, bounded
	}
	return max(inside, int64(min(lock, math.MaxInt64))), false
}

// addBytes adds two sizes. The sum stays at the largest int64 instead of overflowing.
func addBytes(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
