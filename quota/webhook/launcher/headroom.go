package launcher

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/memlock/kubevirt/vmi"
)

const (
	capacityFlag = "--memory-capacity"

	maxCapacity = 1 << 42 // MiB, the hook's maximum
)

// preparedMemory returns the memory in bytes up to which a headroom hook prepares the domain; 0
// without a hook. libvirt counts the whole device at the start of a domain with VFIO. If only the
// node knows the capacity and no annotation has the memory, the client gets a warning.
func (m *mutation) preparedMemory(request api.Request) int64 {
	hooks, err := vmi.HookSidecars(m.VMI.Annotations)
	if err != nil {
		return 0 // KubeVirt creates no launcher for it
	}
	at := slices.IndexFunc(hooks, vmi.HookSidecar.IsMooring)
	if at < 0 {
		return 0
	}
	capacity := memoryCapacity(append(hooks[at].Command[1:], hooks[at].Args...))
	if capacity == 0 && request.GuestMemory == nil {
		m.warn("the memory lock does not cover the headroom of the VM: give the hook sidecar "+
			"%s, or the VM the annotation %s", capacityFlag, api.GuestMemoryKey)
	}
	return capacity * mib
}

// memoryCapacity returns the hook's capacity in MiB; 0 if the arguments have none.
func memoryCapacity(args []string) int64 {
	for i, arg := range args {
		value, ok := strings.CutPrefix(arg, capacityFlag+"=")
		if arg == capacityFlag && i+1 < len(args) {
			value, ok = args[i+1], true
		}
		if n, err := strconv.ParseInt(value, 10, 64); ok && err == nil && n > 0 &&
			n <= maxCapacity {
			return n
		}
	}
	return 0
}
