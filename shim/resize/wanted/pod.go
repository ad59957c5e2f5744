package wanted

import (
	"fmt"
)

// Pod is what a pod's limits are. Memory is in bytes, CPU in thousandths of a CPU; 0 is
// no limit.
type Pod struct {
	Launcher    string // the container that runs the VM
	Containers  []Container
	Memory, CPU int64 // of the pod as a whole

	// Outside is set if the VM runs outside of the pod's cgroups, which then do not hold
	// it to anything.
	Outside bool
}

// Container is what the limits of a container are, as in [Pod].
type Container struct {
	Name        string
	Memory, CPU int64
}

// limits returns what bounds the VM; 0 is no limit.
func (p Pod) limits() (memory, cpu int64, err error) {
	for _, c := range p.Containers {
		if c.Name != p.Launcher {
			continue
		}
		for _, n := range []int64{c.Memory, c.CPU, p.Memory, p.CPU} {
			if n < 0 {
				return 0, 0, fmt.Errorf("limits of container %q: %d: want no less than 0", c.Name, n)
			}
		}
		return least(c.Memory, p.Memory), least(c.CPU, p.CPU), nil
	}
	return 0, 0, fmt.Errorf("the pod has no container %q, which runs the VM", p.Launcher)
}

// least is the lower of two limits.
func least(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// Guest is what the size depends on of the guest as it is.
type Guest struct {
	Boot  uint64   // bytes that it booted with
	DIMMs []uint64 // bytes of each; it gives them back whole, the last one first
	Block uint64   // what it takes memory in, and gives back what is no DIMM, in bytes
	VCPUs int

	// Keeps has it keep vCPUs, memory and bandwidth of which the request says nothing,
	// whatever the limits leave room for.
	Keeps bool
}

// down is the largest size that the guest can come to have and that is not above n: what
// it booted with and its DIMMs, without the last of them where that is more than n; and
// whole blocks more, where it has all its DIMMs, or less, where it has none.
func (g Guest) down(n uint64) uint64 {
	size, left := g.Boot, len(g.DIMMs)
	for _, d := range g.DIMMs {
		size += d
	}
	for size > n && left > 0 {
		left--
		size -= g.DIMMs[left]
	}
	if size <= n && left < len(g.DIMMs) {
		return size
	}
	if g.Block == 0 {
		return n
	}
	return n - (n%g.Block+g.Block-size%g.Block)%g.Block
}
