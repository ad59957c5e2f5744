package agent

import (
	"context"
	"log/slog"

	"github.com/mooring-vm/mooring/agent/podserver"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// makePods makes the node that answers pods on the sockets in their directories.
func (a *Agent) makePods(context.Context) (err error) {
	if a.desired, err = openPodStore(a.config.Root, a.logger); err != nil {
		return err
	}
	a.pods = &podserver.Node{
		Registry: a.registry,
		Kernel:   a.kernel,
		Recorder: a.recorders(),
		Logger:   a.logger,
		Cgroup:   a.guard.Cgroup,
		Grant:    a.plugin.GrantLock,
		Policy:   a.policies.current,
		Ready:    a.plugin.Reconciled,
		Clock:    host.LinuxClock{},
		Store:    a.desired,
		Reports:  a.podDirs,
	}
	if a.kube != nil {
		a.pods.Desired, a.pods.Accounts = a.kube.pods, a.kube.pods
	}
	if a.supervision != nil {
		a.pods.SetStopHandler = a.supervision.SetStopHandler
	}
	a.pods.RestoreRequirements()
	return nil
}

// openPodStore opens the store of pods' requests and logs unreadable ones.
func openPodStore(root string, logger *slog.Logger) (*podserver.FileStore, error) {
	store, err := podserver.OpenFileStore(root)
	if err != nil {
		return nil, err
	}
	if err := store.Unreadable(); err != nil {
		logger.Warn("some pods have unreadable requests: their VMs keep their size, and the "+
			"agent refuses lower memory limits until they report their memory requirements",
			"error", err)
	}
	return store, nil
}

// headroomOf returns the policy's capacities for VMs that grow.
func headroomOf(p *policy.Policy) podapi.Headroom { return podapi.Headroom(p.Headroom) }
