package resize

import (
	memlockdomain "github.com/mooring-vm/mooring/memlock/domain"
)

type definition = memlockdomain.Definition

// lockGranule is the unit to which libvirt rounds memory devices for the lock.
const lockGranule = 2 * mebi

// definitionKiB returns the KiB that a DIMM adds to the memory of a definition.
func definitionKiB(bytes uint64) uint64 {
	return (bytes + lockGranule - 1) / lockGranule * (lockGranule / memlockdomain.KiB)
}

// planLock plans the memory-lock limit by libvirt's formula for the future domain. The limit never
// falls below the launcher's own limit, because the agent refuses that. If libvirt requires no
// limit, the current one stays. It also does not fall if QEMU may need more than libvirt counts.
func (b *builder) planLock() {
	required, known, err := requiredLock(b.definition)
	if err != nil {
		b.refuse(NoLock, "%v", err)
		return
	}
	if required == 0 {
		return
	}
	seen := b.observed.Limits
	if len(b.grow) > 0 && seen.Lock < required {
		b.raiseLock = Steps{
			RaiseLock{From: seen.Lock, To: required, Within: b.policy.Timeouts.Lock},
		}
	}
	to := max(required, seen.Floor, seen.Locked)
	if known && seen.Lock != NoLimit && to < seen.Lock {
		b.lowerLock = Steps{LowerLock{From: seen.Lock, To: to, Within: b.policy.Timeouts.Lock}}
	}
}
