package headroom

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/mooring-vm/mooring/api/podapi"
)

// Source is where capacities come from that no flag says: the node policy, and else the
// host. A flag wins over the policy, also one that says 0, which is the host's.
type Source struct {
	Host Host

	// Policy asks for the capacities of the node policy.
	Policy func(ctx context.Context) (podapi.Headroom, error)

	memoryFlagSet, cpuFlagSet bool // flags that were given
}

// Heed has flags that were given win. They are those of [Options.AddFlags].
func (s *Source) UseFlags(flags *pflag.FlagSet) {
	s.memoryFlagSet, s.cpuFlagSet = flags.Changed(memoryFlag), flags.Changed(cpuFlag)
}

// Read returns what to have as [Options.Host], and from says which capacities of it the
// policy has given; nil: none. The policy is asked only for what no flag says. With the
// error, which is that of asking, the host's come all the same.
func (s *Source) Read(ctx context.Context) (h Host, byPolicy []string, err error) {
	h = s.Host
	if s.memoryFlagSet && s.cpuFlagSet {
		return h, nil, nil
	}
	p, err := s.Policy(ctx)
	if err != nil {
		return h, nil, err
	}
	if memory := p.Memory >> 20; !s.memoryFlagSet && memory > 0 {
		h.Memory = memory
		byPolicy = append(byPolicy, "memory")
	}
	if !s.cpuFlagSet && p.CPUs > 0 {
		h.CPUs = p.CPUs
		byPolicy = append(byPolicy, "CPUs")
	}
	return h, byPolicy, nil
}
