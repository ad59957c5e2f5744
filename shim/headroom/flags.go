package headroom

import (
	"fmt"

	"github.com/spf13/pflag"
)

// The flags that win over a [Source].
const (
	memoryFlag = "memory-capacity"
	cpuFlag    = "cpu-capacity"
)

// AddFlags adds a flag for each option except Host and HugePage.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	const source = "; 0 or less: the host's\nwithout the flag: the node policy's capacity, else " +
		"the host's"
	flags.Int64Var(&o.Memory, memoryFlag, 0, "maximum memory in `MiB`"+source)
	flags.IntVar(&o.CPUs, cpuFlag, 0, "maximum number of vCPUs"+source)
	flags.StringVar((*string)(&o.Device), "memory-device", "",
		fmt.Sprintf("%s or %s; without the flag %[1]s if the domain allows it", VirtioMem, DIMM))
	flags.IntVar(&o.Slots, "memory-slots", DefaultSlots, "number of DIMM slots")
	flags.Int64Var(&o.Block, "memory-block", 0,
		"block size of virtio-mem in `MiB`; 0: 2, or the domain's huge page size")
}
