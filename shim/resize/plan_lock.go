package resize

import (
	memlockdomain "github.com/mooring-vm/mooring/memlock/domain"
)

type definition = memlockdomain.Definition

// moduleStep is what libvirt rounds memory devices up to for the lock.
const moduleStep = 2 * mebi

// lockable is what a DIMM adds to the memory of a definition, in KiB.
func lockable(bytes uint64) uint64 {
	return (bytes + moduleStep - 1) / moduleStep * (moduleStep / memlockdomain.KiB)
}

// lock plans the memory lock: what libvirt wants for the domain with the new devices. It
// is not lowered below what the launcher was given, which the agent refuses. A lock that
// libvirt has no opinion on is left alone.
func (b *builder) lock() {
	wants, err := lockWanted(b.after)
	if err != nil {
		b.refuse(NoLock, "%v", err)
		return
	}
	if wants == 0 {
		return
	}
	seen := b.is.Seen
	if len(b.take) > 0 && seen.Lock < wants {
		b.raise = Steps{RaiseLock{From: seen.Lock, To: wants, Bound: b.policy.Bounds.Lock}}
	}
	to := max(wants, seen.Floor, seen.Locked)
	if seen.Lock != NoLimit && to < seen.Lock {
		b.lower = Steps{LowerLock{From: seen.Lock, To: to, Bound: b.policy.Bounds.Lock}}
	}
}
