package agent

import (
	"errors"
	"fmt"

	"github.com/mooring-vm/mooring/agent/kube"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/bpf"
	"github.com/mooring-vm/mooring/internal/kubeclient"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/plugin"
)

// Launchers returns the launchers of the node.
func (a *Agent) Launchers() []agentapi.Launcher {
	known, now := a.registry.List(), host.LinuxClock{}.Now()
	launchers := make([]agentapi.Launcher, 0, len(known))
	for i := range known {
		launchers = append(launchers, known[i].View(now))
	}
	a.usage.fill(launchers)
	return launchers
}

// Node returns the state of the agent itself.
func (a *Agent) Node() agentapi.Node {
	status, _ := a.connection.Status()
	account := a.registry.Account()
	account.Max = a.policy().Memlock.NodeMax
	return agentapi.Node{
		Version: a.build.Version,
		Mode:    string(a.policy().Mode),
		Policy:  a.policies.inForce(),
		NRI:     nriState(status),
		Runtime: agentapi.Runtime{Name: status.RuntimeName, Version: status.RuntimeVersion},
		Memlock: account,
		Tracker: a.trackerState(),
		InPod:   a.config.Kubeconfig == kubeclient.InCluster,

		Headroom: headroomOf(a.policy()),
	}
}

// state returns the facts of the NodeState.
func (a *Agent) state() kube.State {
	return kube.State{Node: a.Node(), Launchers: a.Launchers(), Policy: a.policies.outcome(),
		NotReady: errors.Join(a.nriReady(), a.podsReady()), Deleted: a.deletedPods()}
}

// trackerState returns the state of the tracker.
func (a *Agent) trackerState() agentapi.Tracker {
	if a.tracker == nil {
		return agentapi.Tracker{Error: a.trackerErr.Error()}
	}
	stats, err := a.tracker.Stats()
	if err != nil {
		return agentapi.Tracker{Error: err.Error()}
	}
	return trackerFromStats(&stats)
}

func trackerFromStats(stats *bpf.Stats) agentapi.Tracker {
	return agentapi.Tracker{
		Available: true,
		Processes: stats.Processes, MaxProcesses: stats.MaxProcesses,
		Groups: stats.Groups, MaxGroups: stats.MaxGroups,
		LostEvents: stats.LostEvents, LostProcesses: stats.LostProcesses,
		Stale: stats.Stale, Skipped: stats.SkippedCalls,
	}
}

func nriState(status plugin.Status) agentapi.NRI {
	nri := agentapi.NRI{State: agentapi.NRIDisconnected, Since: status.Since}
	switch status.Phase {
	case plugin.Configured:
		nri.State = agentapi.NRIConnected
	case plugin.Synchronized:
		nri.State = agentapi.NRISynchronized
	}
	if status.Err != nil {
		nri.Error = status.Err.Error()
	}
	return nri
}

// nriReady returns nil, or the reason why the runtime does not call the agent.
func (a *Agent) nriReady() error {
	status, _ := a.connection.Status()
	switch {
	case status.Phase == plugin.Synchronized && a.plugin.Reconciled():
		return nil
	case status.Phase == plugin.Synchronized:
		return errNotReconciled
	case status.Err != nil:
		return fmt.Errorf("%s at %s: %w", status.Phase, a.config.NRISocket, status.Err)
	}
	return fmt.Errorf("%s at %s", status.Phase, a.config.NRISocket)
}

var errNotReconciled = errors.New("the agent has not taken over the runtime's containers yet")

var errNoPods = errors.New(
	"the pods of this node are not listed yet; rules that name service accounts refuse")

func (a *Agent) podsReady() error {
	if a.kube.pods.Synced() {
		return nil
	}
	return errNoPods
}
