package resize

import "time"

// Policy is what the owner of the node allows, and how long a step may take. The zero
// value allows to grow as far as the domain can, by devices.
type Policy struct {
	MaxMemory uint64 // of a guest, in bytes; 0: none
	MaxVCPUs  int    // 0: none

	Shrink  bool // guests may be asked to give memory and vCPUs back
	Balloon bool // the balloon may be used

	Timeouts Timeouts
}

// Bounds are the most that steps may take until they are confirmed. 0 is the default.
type Timeouts struct {
	RaisedLimit  time.Duration // memory.max is as high as needed; 2 min
	LoweredLimit time.Duration // memory.max is as low as wanted; 2 min
	Lock         time.Duration // 10 s
	Grow         time.Duration // the guest takes memory; 60 s
	Shrink       time.Duration // the guest gives memory back; 2 min
	VCPUs        time.Duration // the guest uses vCPUs, or has given them back; 30 s
	Bandwidth    time.Duration // bandwidth; 10 s
	Read         time.Duration // libvirt and the agent answer, between steps; 30 s

	// Poll is how often is looked where no event comes; 1 s.
	Poll time.Duration
}

const mebi = 1 << 20

// DIMMBlock is what Linux guests on x86 plug and unplug memory in, in bytes. DIMMs are
// multiples of it.
const DIMMBlock = 128 * mebi

func (p Policy) withDefaults() Policy {
	p.Timeouts = p.Timeouts.withDefaults()
	return p
}

func (b Timeouts) withDefaults() Timeouts {
	for _, f := range []struct {
		at    *time.Duration
		value time.Duration
	}{
		{&b.RaisedLimit, 2 * time.Minute}, {&b.LoweredLimit, 2 * time.Minute}, {&b.Lock, 10 * time.Second},
		{&b.Grow, time.Minute}, {&b.Shrink, 2 * time.Minute}, {&b.VCPUs, 30 * time.Second},
		{&b.Bandwidth, 10 * time.Second}, {&b.Read, 30 * time.Second}, {&b.Poll, time.Second},
	} {
		if *f.at <= 0 {
			*f.at = f.value
		}
	}
	return b
}
