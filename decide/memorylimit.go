package decide

import (
	"fmt"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// MemoryLimit decides about a change of a running launcher's memory limit from was to limit, in
// bytes. It returns a [*Refusal] for a limit below the VM's memory requirement, because the kernel
// would kill the VM. A requirement of [host.Unlimited] is unknown, and was takes its place. A limit
// of 0 or less is none. In mode observe the caller only reports the refusal.
func MemoryLimit(l *agentapi.Launcher, was, limit int64, requirement host.Limit) *Refusal {
	reason := fmt.Sprintf("its VM needs %s until it has given memory back", requirement)
	if requirement == host.Unlimited {
		reason = "the memory requirement of its VM is unknown until the VM reports it to the agent"
		if was > 0 {
			requirement = host.Limit(was)
		}
	}
	if limit <= 0 || host.Limit(limit) >= requirement {
		return nil
	}
	return &Refusal{
		Reason: agentapi.ReasonResizeFailed,
		Message: fmt.Sprintf("mooring refuses to lower the memory limit of container %q of pod "+
			"%s/%s to %s: %s; kubelet tries again", l.Container.Name, l.Pod.Namespace, l.Pod.Name,
			api.Bytes(limit), reason),
	}
}

// AccountGrowth decides about a new memory limit that changes a running launcher's part of the
// node's account from was to next bytes. It returns a [*Refusal] if the part grows and no longer
// fits beside the parts of the other launchers. In mode observe the caller only reports the
// refusal.
func AccountGrowth(p *policy.Policy, l *agentapi.Launcher, was, next, others int64) *Refusal {
	most := p.Memlock.NodeMax
	if most == 0 || next <= was || next <= most-others {
		return nil
	}
	return &Refusal{
		Reason: agentapi.ReasonResizeFailed,
		Message: fmt.Sprintf("mooring refuses to raise the memory limit of container %q of pod "+
			"%s/%s: its processes could then lock %s, the node policy allows %s for all launchers "+
			"of this node together (memlock.nodeMax), and others have %s; kubelet tries again",
			l.Container.Name, l.Pod.Namespace, l.Pod.Name, api.Bytes(next), api.Bytes(most),
			api.Bytes(others)),
	}
}
