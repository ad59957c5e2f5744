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
// dry run is to be made for, in place of the one before. It returns the pods that are
// meant: those of that name whose launcher runs. The error is [ErrKubernetes] where there
// is Kubernetes, and it is no dry run.
func (n *Node) RequestSize(namespace, name string, size api.Size, dryRun bool) (pods []agentapi.ResizedPod, err error) {
	if n.Desired != nil && !dryRun {
		return nil, fmt.Errorf("%w: with --kubeconfig they are set, or by `%s`", ErrKubernetes, annotateCommand(namespace, name, size))
	}
	for _, l := range n.Registry.List() {
		if l.Pod.Namespace != namespace || l.Pod.Name != name {
			continue
		}
		p := n.pod(l.Pod.UID)
		if _, err := p.launcher(); err != nil {
			continue
		}
		ask := p.storeSize
		if dryRun {
			ask = p.storeDryRun
		}
		generation, err := ask(size)
		if err != nil {
			return pods, err
		}
		pods = append(pods, agentapi.ResizedPod{UID: l.Pod.UID, Generation: generation})
	}
	return pods, nil
}

// ask returns the generation of what is wanted then. A dry run that is under way goes on.
func (p *pod) storeSize(size api.Size) (generation uint64, err error) {
	p.node.storeMu.Lock()
	defer p.node.storeMu.Unlock()
	asked, _ := p.node.Store.Get(p.uid)
	asked.Size = size
	if err := p.node.Store.Put(p.uid, asked); err != nil {
		return 0, err
	}
	wanted, err := p.Desired()
	return wanted.Generation, err
}

// tryOut returns the generation of the dry run.
func (p *pod) storeDryRun(size api.Size) (generation uint64, err error) {
	p.node.storeMu.Lock()
	defer p.node.storeMu.Unlock()
	asked, _ := p.node.Store.Get(p.uid)
	if asked.DryRun != nil {
		generation = asked.DryRun.Generation
	}
	generation = p.node.nextGeneration(generation)
	asked.DryRun = &podapi.DryRun{Generation: generation, Size: size}
	return generation, p.node.Store.Put(p.uid, asked)
}

// annotate is the command that asks a pod for a size.
func annotateCommand(namespace, name string, size api.Size) string {
	command := fmt.Sprintf("kubectl -n %s annotate --overwrite pod %s", namespace, name)
	annotations := size.Annotations()
	for _, key := range []string{api.VCPUsKey, api.ResizeMemoryKey, api.CPUQuotaKey, api.CPUSharesKey} {
		if value, ok := annotations[key]; ok {
			command += fmt.Sprintf(" %s=%s", key, value)
		}
	}
	return command
}
