package podserver

import (
	"errors"
	"fmt"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

// ErrKubernetes says that the pod itself says what it is wanted to be.
var ErrKubernetes = errors.New("this node has Kubernetes, where the pod's own limits and annotations say what size its VM is to have")

// Ask sets what a pod's VM is to become, in place of what was asked before, or what a
// dry run is to be made for. It returns the pods that are meant: those of that name
// whose launcher runs. The error is [ErrKubernetes] where there is Kubernetes, and it is
// no dry run.
func (n *Node) Ask(namespace, name string, size podapi.Size, dryRun bool) (pods []agentapi.ResizedPod, err error) {
	if n.Desired != nil && !dryRun {
		return nil, fmt.Errorf("%w: with --kubeconfig they are set, or by `%s`", ErrKubernetes, annotate(namespace, name, size))
	}
	for _, l := range n.Registry.List() {
		if l.Pod.Namespace != namespace || l.Pod.Name != name {
			continue
		}
		p := n.pod(l.Pod.UID)
		if _, err := p.launcher(); err != nil {
			continue
		}
		asked, _ := n.Store.Get(l.Pod.UID)
		if dryRun {
			asked.DryRun = &size
		} else {
			asked = Asked{Size: size}
		}
		if err := n.Store.Put(l.Pod.UID, asked); err != nil {
			return pods, err
		}
		wanted, err := p.Wanted()
		if err != nil {
			return pods, err
		}
		pods = append(pods, agentapi.ResizedPod{UID: l.Pod.UID, Generation: wanted.Generation})
	}
	return pods, nil
}

// annotate is the command that asks a pod for a size.
func annotate(namespace, name string, size podapi.Size) string {
	command := fmt.Sprintf("kubectl -n %s annotate --overwrite pod %s", namespace, name)
	if size.VCPUs != 0 {
		command += fmt.Sprintf(" %s=%d", api.VCPUsKey, size.VCPUs)
	}
	if size.Memory != 0 {
		command += fmt.Sprintf(" %s=%s", api.ResizeMemoryKey, api.Bytes(size.Memory))
	}
	if size.CPUQuota != "" {
		command += fmt.Sprintf(" %s=%s", api.CPUQuotaKey, size.CPUQuota)
	}
	return command
}
