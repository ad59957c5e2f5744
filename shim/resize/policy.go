package resize

import (
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
)

// Policy is the node's limit on resizes, and the timeouts of steps. The zero value allows growth by
// devices up to the domain's maximum.
type Policy struct {
	MaxMemory uint64 // bytes of a guest; 0: no maximum
	MaxVCPUs  int    // 0: no maximum

	Rule string // of the node policy, which may set the maximums; for messages

	Shrink  bool // the guest may shrink
	Balloon bool // the balloon may be used

	Timeouts Timeouts
}

// Timeouts are the maximum times without progress until steps are confirmed. 0 selects the default.
type Timeouts struct {
	RaisedLimit  time.Duration // kubelet raises memory.max; 2 min
	LoweredLimit time.Duration // kubelet lowers memory.max; 2 min
	Lock         time.Duration // memory-lock limit; 10 s
	Grow         time.Duration // the guest takes memory; 60 s
	Shrink       time.Duration // the guest releases memory; 2 min
	VCPUs        time.Duration // the guest brings vCPUs online or releases them; 30 s
	Bandwidth    time.Duration // CPU bandwidth and shares; 10 s
	Read         time.Duration // answers of libvirt and the agent, between steps; 30 s

	// Poll is the interval of observations without an event; 1 s.
	Poll time.Duration
}

const mebi = 1 << 20

// DIMMBlock is the unit, in bytes, in which Linux guests on x86 plug and unplug memory. DIMMs are
// multiples of it.
const DIMMBlock = 128 * mebi

// Within returns a policy that also respects the bound of the node policy.
func (p Policy) Within(b podapi.Bound) Policy {
	p.Rule = b.Rule
	if m := uint64(max(b.Memory, 0)); m > 0 && (p.MaxMemory == 0 || m < p.MaxMemory) {
		p.MaxMemory = m
	}
	if n := b.VCPUs; n > 0 && (p.MaxVCPUs == 0 || n < p.MaxVCPUs) {
		p.MaxVCPUs = n
	}
	return p
}

// by names the rule in messages.
func (p Policy) by() string {
	if p.Rule == "" {
		return ""
	}
	return fmt.Sprintf(" (rule %q)", p.Rule)
}

func (p Policy) withDefaults() Policy {
	p.Timeouts = p.Timeouts.withDefaults()
	return p
}

func (b Timeouts) withDefaults() Timeouts {
	for _, f := range []struct {
		at    *time.Duration
		value time.Duration
	}{
		{
			&b.RaisedLimit,
			2 * time.Minute,
		}, {&b.LoweredLimit, 2 * time.Minute}, {&b.Lock, 10 * time.Second},
		{&b.Grow, time.Minute}, {&b.Shrink, 2 * time.Minute}, {&b.VCPUs, 30 * time.Second},
		{&b.Bandwidth, 10 * time.Second}, {&b.Read, 30 * time.Second}, {&b.Poll, time.Second},
	} {
		if *f.at <= 0 {
			*f.at = f.value
		}
	}
	return b
}
