package plugin

import (
	"fmt"
	"math"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/lifecycle"
)

// resize notes what the limits of a launcher are to be, and refuses a memory limit that
// is lower than what its VM needs. It is answered with an error and never with another
// value: a limit that kubelet believes lower than it is ends with the VM killed.
// Kubelet tries again, and meanwhile the VM gives memory back.
func (p *Plugin) resize(l lifecycle.Launcher, r *nri.LinuxResources) error {
	p.Registry.Update(l.Container.ID, func(now *lifecycle.Launcher) { now.Limits = limitsOf(r, now.Limits) })
	asked := r.GetMemory().GetLimit().GetValue()
	if need := l.Needs(); asked > 0 && uint64(asked) < need && p.Policy.Mode == policy.Enforce {
		return &decide.Refusal{
			Reason: agentapi.ReasonResizeFailed,
			Message: fmt.Sprintf("mooring refuses to lower the memory limit of container %q of pod %s/%s to %s: "+
				"its VM needs %s until it has given memory back; kubelet tries again",
				l.Container.Name, l.Pod.Namespace, l.Pod.Name, api.Bytes(asked), lifecycle.Limit(need)),
		}
	}
	return nil
}

// limitsOf returns the limits of a container's resources. What they do not say stays as
// it was; below 0 there is no limit.
func limitsOf(r *nri.LinuxResources, was lifecycle.ContainerLimits) lifecycle.ContainerLimits {
	if memory := r.GetMemory().GetLimit().GetValue(); memory != 0 {
		was.Memory = max(memory, 0)
	}
	quota, period := r.GetCpu().GetQuota().GetValue(), r.GetCpu().GetPeriod().GetValue()
	switch {
	case quota < 0:
		was.CPU = 0
	case quota > 0 && period > 0:
		was.CPU = milli(quota, period)
	}
	return was
}

// milli is a bandwidth in thousandths of a CPU, rounded: kubelet has rounded, too.
func milli(quota int64, period uint64) int64 {
	cpus := math.Round(float64(quota) * 1000 / float64(period))
	return int64(min(max(cpus, 1), 1<<40))
}

// GrantLock enters that a launcher's VM process may lock so much, if policy allows that:
// it is decided like the lock of a launcher that is created, one after the other. The
// error says what does not allow it. It does arithmetic only; that the process gets the
// lock is up to the caller.
func (p *Plugin) GrantLock(containerID string, vm lifecycle.Process, lock lifecycle.Limit) error {
	p.deciding.Lock()
	defer p.deciding.Unlock()
	l, ok := p.Registry.Find(containerID)
	if !ok {
		return fmt.Errorf("container %s is no launcher any more", containerID)
	}
	if err := p.allowLock(&l, vm, lock); err != nil || lock <= l.VMLock(vm) {
		return err
	}
	p.Registry.Update(containerID, func(now *lifecycle.Launcher) { now.SetLock(vm, lock) })
	return nil
}

func (p *Plugin) allowLock(l *lifecycle.Launcher, vm lifecycle.Process, lock lifecycle.Limit) error {
	switch {
	case p.Policy.Mode != policy.Enforce:
		return fmt.Errorf("the node policy is in mode %q, which changes nothing", p.Policy.Mode)
	case lock <= l.VMLock(vm):
		return nil
	case l.Ceiling == nil:
		return fmt.Errorf("no rule of the node policy is known to allow pod %s/%s a memory lock of %s", l.Pod.Namespace, l.Pod.Name, lock)
	case lock > *l.Ceiling:
		return fmt.Errorf("the node policy allows pod %s/%s up to %s of locked memory, and %s is asked for", l.Pod.Namespace, l.Pod.Name, *l.Ceiling, lock)
	case lock == lifecycle.Unlimited || p.Policy.Memlock.NodeMax == 0:
		return nil
	}
	most, granted := p.Policy.Memlock.NodeMax, p.granted(l.Key())
	if left := most - granted; left < 0 || lock > lifecycle.Limit(left) {
		return fmt.Errorf("the node policy allows %s for all launchers of this node together (memlock.nodeMax), others have %s, and %s is asked for",
			api.Bytes(most), api.Bytes(granted), lock)
	}
	return nil
}
