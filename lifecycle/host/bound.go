package host

import "math"

// Bound is the memory that the processes of one container can have, and so lock, together.
// RLIMIT_MEMLOCK only bounds each process.
type Bound struct {
	Memory    int64 // memory limit of the container in bytes; 0 or less: none
	HugePages int64 // huge-page limit in bytes; the memory limit does not include it
}

// Charge returns the bytes that the node's account counts for a container with this memory lock.
// Without a memory limit it counts the lock, or 0 if the lock is unlimited, and bounded is false:
// the processes together may lock more.
func (b Bound) Charge(lock Limit) (bytes int64, bounded bool) {
	switch {
	case b.Memory > 0:
		return addBytes(b.Memory, b.HugePages), true
	case lock == Unlimited:
		return 0, false
	}
	return int64(min(lock, math.MaxInt64)), false
}

// addBytes adds two sizes. The sum stays at the largest int64 instead of overflowing.
func addBytes(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
