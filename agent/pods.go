package agent

import (
	"context"

	"github.com/mooring-vm/mooring/agent/podserver"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle"
)

// makePods makes what answers pods on the sockets in their directories.
func (a *Agent) makePods(context.Context) (err error) {
	if a.wanted, err = podserver.OpenFileStore(a.config.Root); err != nil {
		return err
	}
	a.pods = &podserver.Node{
		Registry: a.registry,
		Kernel:   a.kernel,
		Recorder: a.recorder(),
		Logger:   a.logger,
		Cgroup:   a.guard.Cgroup,
		Grant:    a.plugin.GrantLock,
		Enforce:  a.policy.Mode == policy.Enforce,
		Ready:    a.plugin.Reconciled,
		Clock:    lifecycle.LinuxClock{},
		Store:    a.wanted,
		Reports:  a.podDirs,
		Headroom: headroomOf(a.policy),
	}
	if a.kube != nil {
		a.pods.Desired = a.kube.pods
	}
	if a.supervision != nil {
		a.pods.Takes = a.supervision.Takes
	}
	a.pods.RecallNeeds()
	return nil
}

// headroomOf is what is told of the policy's capacities.
func headroomOf(p *policy.Policy) podapi.Headroom { return podapi.Headroom(p.Headroom) }
