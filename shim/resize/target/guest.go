package target

// Guest is the current state of a guest, as far as the target depends on it. Amounts are bytes.
type Guest struct {
	Boot   uint64 // memory at boot
	Memory uint64 // current memory

	// HugePages is set if huge pages back the memory.
	HugePages bool

	DIMMs []uint64 // size of each DIMM; the guest gives back whole DIMMs, the last one first
	Block uint64   // unit in which the guest takes other memory and gives it back
	VCPUs int

	// MaxMemory, MinVCPUs and MaxVCPUs bound a size that follows the limits. 0: no bound.
	MaxMemory          uint64
	MinVCPUs, MaxVCPUs int

	// Keeps is set if the guest keeps its vCPUs, memory and bandwidth unless the pod requests a
	// number. Otherwise they follow the limits.
	Keeps bool
}

// down returns the largest size up to n that the guest can reach. Above the size with all DIMMs it
// adds whole blocks, and below the boot memory it removes them. In between it removes the last
// DIMMs.
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
