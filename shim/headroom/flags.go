package headroom

import (
	"fmt"

	"github.com/spf13/pflag"
)

// AddFlags adds the flags that set the options, but for the host.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.Int64Var(&o.Memory, "memory-capacity", 0, "memory in `MiB` that the domain may grow to; 0 or less: the host's")
	flags.IntVar(&o.CPUs, "cpu-capacity", 0, "number of vCPUs that the domain may grow to; 0 or less: the host's")
	flags.StringVar((*string)(&o.Device), "memory-device", "", fmt.Sprintf("%s or %s; without it %s where the domain allows it", VirtioMem, DIMM, VirtioMem))
	flags.IntVar(&o.Slots, "memory-slots", DefaultSlots, "number of slots for DIMMs")
	flags.Int64Var(&o.Block, "memory-block", 0, "least step of virtio-mem in `MiB`; 0: 2, or the domain's huge page")
}
