package headroom

import (
	"fmt"

	"github.com/spf13/pflag"
)

// The flags that a [Source] heeds.
const (
	memoryFlag = "memory-capacity"
	cpuFlag    = "cpu-capacity"
)

// AddFlags adds the flags that set the options, but for the host.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.Int64Var(&o.Memory, memoryFlag, 0, "memory in `MiB` that the domain may grow to; 0 or less: the host's; without it the node policy's, or else the host's")
	flags.IntVar(&o.CPUs, cpuFlag, 0, "number of vCPUs that the domain may grow to, likewise")
	flags.StringVar((*string)(&o.Device), "memory-device", "", fmt.Sprintf("%s or %s; without it %s where the domain allows it", VirtioMem, DIMM, VirtioMem))
	flags.IntVar(&o.Slots, "memory-slots", DefaultSlots, "number of slots for DIMMs")
	flags.Int64Var(&o.Block, "memory-block", 0, "least step of virtio-mem in `MiB`; 0: 2, or the domain's huge page")
}
