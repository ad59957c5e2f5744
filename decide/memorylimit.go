package decide

import (
	"fmt"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// MemoryLimit decides about a new memory limit of a running launcher, in bytes. It returns a
// [*Refusal] for a limit below the VM's memory requirement, because the kernel would kill the VM.
// A limit of 0 or less is none. In mode observe the caller only reports the refusal.
func MemoryLimit(l *agentapi.Launcher, limit int64, requirement host.Limit) *Refusal {
	if limit <= 0 || host.Limit(limit) >= requirement {
		return nil
	}
	return &Refusal{
		Reason: agentapi.ReasonResizeFailed,
		Message: fmt.Sprintf("mooring refuses to lower the memory limit of container %q of pod "+
			"%s/%s to %s: "+
			"its VM needs %s until it has given memory back; kubelet tries again",
			l.Container.Name, l.Pod.Namespace, l.Pod.Name, api.Bytes(limit), requirement),
	}
}
