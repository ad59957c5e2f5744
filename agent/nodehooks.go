package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/agent/nodehook"
)

// listenForNodeHooks makes the server for KubeVirt's node hooks, if the agent has a socket for
// them. virt-handler may not have made the directory yet.
func (a *Agent) listenForNodeHooks(ctx context.Context) (err error) {
	socket := a.config.NodeHookSocket
	if socket == "" {
		return nil
	}
	if a.kube == nil {
		return fmt.Errorf("--node-hook-socket %q: want --kubeconfig, too: a hook names a VM, and "+
			"the pods of the node show its launcher", socket)
	}
	node, err := a.config.node()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return fmt.Errorf("--node-hook-socket: %w", err)
	}
	if a.listeners.hooks, err = admin.Listen(ctx, socket); err != nil {
		return fmt.Errorf("--node-hook-socket: %w", err)
	}
	a.nodeHooks = nodehook.New(nodehook.Config{
		Node:      node,
		Ready:     func() bool { return a.plugin.Reconciled() && a.kube.pods.Synced() },
		Launchers: a.registry.List,
		Instance:  a.kube.pods.Instance,
		Require:   a.guard.Require,
		Served:    a.metrics.NodeHook,
		Logger:    a.logger,
	})
	return nil
}
