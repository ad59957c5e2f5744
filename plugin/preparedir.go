package plugin

import (
	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
)

// prepareDir creates the directory of a launcher pod before its containers, so that CreateContainer
// only checks it. Creating it costs more than the rest of that handler. The failure is not
// reported here: CreateContainer tries again, and refuses the launcher if that fails, too.
func (p *Plugin) prepareDir(pod *nri.PodSandbox) {
	now := p.Policy.Get()
	if _, ok := decide.Recognise(now, pod.GetLabels(), pod.GetAnnotations()); !ok ||
		now.Mode != policy.Enforce {
		return
	}
	if _, err := p.PodDirs.Create(pod.GetUid()); err != nil {
		p.Logger.Debug("directory not created in advance, retrying with the launcher",
			"pod", pod.GetNamespace()+"/"+pod.GetName(), "error", err)
	}
}
