package resize

import (
	memlockdomain "github.com/mooring-vm/mooring/memlock/domain"
)

type definition = memlockdomain.Definition

// moduleStep is what libvirt rounds memory devices up to for the lock.
const lockGranule = 2 * mebi

// lockable is what a DIMM adds to the memory of a definition, in KiB.
func definitionKiB(bytes uint64) uint64 {
	return (bytes + lockGranule - 1) / lockGranule * (lockGranule / memlockdomain.KiB)
}

// lock plans the memory lock: what libvirt wants for the domain with the new devices. It
// is not lowered below what the launcher was given, which the agent refuses. A lock that
// libvirt has no opinion on is left alone.
func (b *builder) planLock() {
	required, err := requiredLock(b.definition)
	if err != nil {
		b.refuse(NoLock, "%v", err)
		return
	}
	if required == 0 {
		return
	}
	seen := b.observed.Limits
	if len(b.grow) > 0 && seen.Lock < required {
		b.raiseLock = Steps{RaiseLock{From: seen.Lock, To: required, Within: b.policy.Timeouts.Lock}}
	}
	to := max(required, seen.Floor, seen.Locked)
	if seen.Lock != NoLimit && to < seen.Lock {
		b.lowerLock = Steps{LowerLock{From: seen.Lock, To: to, Within: b.policy.Timeouts.Lock}}
	}
}
