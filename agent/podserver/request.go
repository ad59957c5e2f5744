package podserver

import (
	"errors"
	"fmt"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

// ErrKubernetes says that the pod's object in Kubernetes has the desired size.
var ErrKubernetes = errors.New("on a node with Kubernetes the pod's limits and annotations set " +
	"the size of its VM")

// RequestSize sets the desired size of a VM, or requests a dry run, and replaces an earlier request
// of that kind. It returns the pods with this name and a running launcher. With Kubernetes only a
// dry run is possible; the error is [ErrKubernetes].
func (n *Node) RequestSize(
	namespace, name string, size api.Size, dryRun bool,
) (pods []agentapi.ResizedPod, err error) {
	if n.Desired != nil && !dryRun {
		return nil, fmt.Errorf("%w: use --kubeconfig, or run `%s`", ErrKubernetes,
			annotateCommand(namespace, name, size))
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

// storeSize stores a request and returns the new generation of the desired state. A dry run under
// way continues.
func (p *pod) storeSize(size api.Size) (generation uint64, err error) {
	p.node.storeMu.Lock()
	defer p.node.storeMu.Unlock()
	record, err := p.node.Store.Get(p.uid)
	if err != nil {
		return 0, err
	}
	record.Size = size
	if err := p.node.Store.Put(p.uid, record); err != nil {
		return 0, err
	}
	wanted, err := p.Desired()
	return wanted.Generation, err
}

// storeDryRun stores a dry run and returns its generation.
func (p *pod) storeDryRun(size api.Size) (generation uint64, err error) {
	p.node.storeMu.Lock()
	defer p.node.storeMu.Unlock()
	record, err := p.node.Store.Get(p.uid)
	if err != nil {
		return 0, err
	}
	if record.DryRun != nil {
		generation = record.DryRun.Generation
	}
	generation = p.node.nextGeneration(generation)
	record.DryRun = &podapi.DryRun{Generation: generation, Size: size}
	return generation, p.node.Store.Put(p.uid, record)
}

// annotateCommand returns the command that asks for the size by annotations.
func annotateCommand(namespace, name string, size api.Size) string {
	command := fmt.Sprintf("kubectl -n %s annotate --overwrite pod %s", namespace, name)
	annotations := size.Annotations()
	for _, key := range []string{api.VCPUsKey, api.ResizeMemoryKey, api.CPUQuotaKey,
		api.CPUSharesKey} {
		if value, ok := annotations[key]; ok {
			command += fmt.Sprintf(" %s=%s", key, value)
		}
	}
	return command
}
