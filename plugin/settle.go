package plugin

import (
	"math"

	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// settle calls decide with the lock deciding. decide returns true, and must have recorded nothing,
// if it refused beside an upper bound of the node's account. settle then releases the lock, reads
// the exact numbers, and calls decide again.
func (p *Plugin) settle(decide func() (again bool)) {
	for p.underDeciding(decide) {
		p.readHugePages()
	}
}

func (p *Plugin) underDeciding(decide func() bool) bool {
	p.deciding.Lock()
	defer p.deciding.Unlock()
	return decide()
}

// granted returns the part of all containers but one in the node's account, in bytes. It includes
// launchers from a pending list of the runtime. exact is false for an upper bound. Without a
// ceiling of the node the number is 0, because no decision needs it. The caller holds deciding.
func (p *Plugin) granted(key registry.Key, containerID string) (bytes int64, exact bool) {
	if p.Policy.Get().Memlock.NodeMax == 0 {
		return 0, true
	}
	s := p.snapshot.Load()
	if s == nil {
		return p.Registry.AccountWithout(key, containerID).Granted, true
	}
	charges := p.chargesOf(s)
	sum := p.Registry.AccountWith(charges, s.generation, key, containerID).Granted
	unread := s.pending.hugePages
	return sum + min(unread, math.MaxInt64-sum), unread == 0
}
