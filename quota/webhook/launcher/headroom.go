package launcher

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/mooring-vm/mooring/api"
)

const (
	hooksAnnotation = "hooks.kubevirt.io/hookSidecars"
	shimProgram     = "mooring-shim"
	capacityFlag    = "--memory-capacity"

	maxCapacity = 1 << 42 // MiB, the hook's maximum
)

// hookSidecar is an element of KubeVirt's annotation.
type hookSidecar struct {
	Command []string `json:"command"`
	Args    []string `json:"args"`
}

// preparedMemory returns the memory in bytes up to which a headroom hook prepares the domain; 0
// without a hook. libvirt counts the whole device at the start of a domain with VFIO. If only the
// node knows the capacity and no annotation has the memory, the client gets a warning.
func (m *mutation) preparedMemory(request api.Request) int64 {
	var hooks []hookSidecar
	if json.Unmarshal([]byte(m.VMI.Annotations[hooksAnnotation]), &hooks) != nil {
		return 0 // KubeVirt creates no launcher for it, or there is no hook
	}
	at := slices.IndexFunc(hooks, func(h hookSidecar) bool {
		return len(h.Command) > 0 && strings.HasSuffix(h.Command[0], shimProgram)
	})
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
