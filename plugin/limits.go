package plugin

import (
	"math"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// updateLimits records the requested limits of a launcher. It refuses a memory limit below the
// VM's memory requirement, and a memory limit beyond the node's account. It never answers with
// another limit: a limit higher than kubelet believes ends with the VM killed. kubelet retries, and
// meanwhile the VM gives memory back.
func (p *Plugin) updateLimits(l registry.Launcher, r *nri.LinuxResources) error {
	var refusal *decide.Refusal
	p.settle(func() (again bool) {
		refusal, again = p.recordLimits(l.Container.ID, r)
		return again
	})
	switch {
	case refusal == nil:
		return nil
	case p.Policy.Get().Mode != policy.Enforce:
		p.report(l, decide.Remark{Type: agentapi.Warning, Reason: agentapi.ReasonWouldRefuse,
			Message: policy.Observing + refusal.Message})
		return nil
	}
	return refusal
}

// recordLimits decides about the requested limits and records them. In mode enforce it records a
// limit below the memory requirement only as desired, and no limit beyond the node's account. The
// caller is settle.
func (p *Plugin) recordLimits(containerID string, r *nri.LinuxResources) (
	refusal *decide.Refusal, again bool,
) {
	l, ok := p.Registry.Find(containerID)
	if !ok {
		return nil, false
	}
	next := limitsOf(r, registry.ContainerLimits{Memory: l.MemoryLimit}).Memory
	beyond, exact := p.accountGrowth(l, next)
	if beyond != nil && !exact {
		return nil, true
	}
	below := decide.MemoryLimit(&l.Launcher, l.MemoryLimit,
		r.GetMemory().GetLimit().GetValue(), host.Limit(l.MemoryRequirement()))
	observe := p.Policy.Get().Mode != policy.Enforce
	p.Registry.Update(containerID, func(now *registry.Launcher) {
		if beyond == nil || observe {
			now.Limits = limitsOf(r, now.Limits)
		}
		if beyond == nil && below == nil || observe {
			now.MemoryLimit = next
		}
	})
	if beyond != nil {
		return beyond, false
	}
	return below, false
}

// accountGrowth decides whether the node's account has room for a launcher with this memory limit.
// exact is as for granted. The caller holds deciding.
func (p *Plugin) accountGrowth(
	l registry.Launcher, next int64,
) (refusal *decide.Refusal, exact bool) {
	was := l.Charge()
	l.MemoryLimit = next
	others, exact := p.granted(l.Key(), l.Container.ID)
	return decide.AccountGrowth(p.Policy.Get(), &l.Launcher, was, l.Charge(), others), exact
}

// limitsOf applies new resources to a container's limits. A limit below 0 means none. Absent
// resources leave a limit unchanged.
func limitsOf(r *nri.LinuxResources, was registry.ContainerLimits) registry.ContainerLimits {
	if memory := r.GetMemory().GetLimit().GetValue(); memory != 0 {
		was.Memory = max(memory, 0)
	}
	quota, period := r.GetCpu().GetQuota().GetValue(), r.GetCpu().GetPeriod().GetValue()
	switch {
	case quota < 0:
		was.CPU = 0
	case quota > 0 && period > 0:
		was.CPU = milliCPU(quota, period)
	}
	return was
}

// milliCPU returns a bandwidth in thousandths of a CPU, rounded, because kubelet has rounded, too.
func milliCPU(quota int64, period uint64) int64 {
	cpus := math.Round(float64(quota) * 1000 / float64(period))
	return int64(min(max(cpus, 1), 1<<40))
}
