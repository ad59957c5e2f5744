package headroom

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/mooring-vm/mooring/api/podapi"
)

// Source provides the capacities that no flag sets: from the node policy, else from the host. A
// flag wins over the policy, even with the value 0, which means the host's.
type Source struct {
	Host Host

	// Policy reads the capacities of the node policy.
	Policy func(ctx context.Context) (podapi.Headroom, error)

	memoryFlagSet, cpuFlagSet bool
}

// UseFlags records the flags of [Options.AddFlags] that the user set.
func (s *Source) UseFlags(flags *pflag.FlagSet) {
	s.memoryFlagSet, s.cpuFlagSet = flags.Changed(memoryFlag), flags.Changed(cpuFlag)
}

// Read returns the value for [Options.Host], and the names of the capacities from the policy. It
// calls Policy only if a flag is missing. If Policy fails, Read returns its error and the host's
// capacities.
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
