package plugin

import (
	"fmt"
	"maps"
	"time"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

const (
	// absentAfter is how long a launcher may be created after another container
	// of its pod has started. Then its annotation is taken for a slip.
	absentAfter = 2 * time.Minute

	// maxAwaited bounds the pods of which the launcher is awaited.
	maxAwaited = 1024
)

// awaited is a pod that runs without the launcher that its annotation names.
type awaited struct {
	launcher registry.Launcher
	since    time.Time
	told     bool
}

// await notes, when another container has started, that the pod names a launcher.
// Where a profile knows the pod as well, a slip was told when it came.
func (p *Plugin) await(pod *nri.PodSandbox) {
	name, ok, _ := api.Launcher(pod.GetAnnotations())
	if _, profile := p.Policy.Profile(pod.GetLabels()); !ok || profile {
		return
	}
	p.deciding.Lock()
	defer p.deciding.Unlock()
	if _, ok := p.awaited[pod.GetUid()]; ok || len(p.awaited) >= maxAwaited {
		return
	}
	l := agentapi.Launcher{Pod: podRef(pod), Container: agentapi.ContainerRef{Name: name}}
	p.awaited[pod.GetUid()] = awaited{launcher: registry.Launcher{Launcher: l}, since: time.Now()}
}

// tellAbsent tells of launchers that did not come, once for each pod.
func (p *Plugin) tellAbsent() {
	for _, l := range p.absent() {
		p.tell(registry.Launcher{Launcher: agentapi.Launcher{Pod: l.Pod}}, decide.Remark{
			Type: agentapi.Warning, Reason: agentapi.ReasonAnnotationInvalid,
			Message: fmt.Sprintf("annotation %s names container %q, which was not created: "+
				"another container of the pod has started more than %s ago", api.LauncherKey, l.Container.Name, absentAfter),
		})
	}
}

// absent returns the launchers that are to be told of, and forgets those that came.
func (p *Plugin) absent() (all []registry.Launcher) {
	p.deciding.Lock()
	defer p.deciding.Unlock()
	for uid, a := range p.awaited {
		if _, came := p.Registry.Get(a.launcher.Key()); came {
			delete(p.awaited, uid)
			continue
		}
		if a.told || time.Since(a.since) < absentAfter {
			continue
		}
		a.told = true // kept until the pod is gone, so that it is told once
		p.awaited[uid] = a
		all = append(all, a.launcher)
	}
	return all
}

// forgetAwaited forgets the pods that are not to be kept.
func (p *Plugin) forgetAwaited(keep func(uid string) bool) {
	p.deciding.Lock()
	defer p.deciding.Unlock()
	maps.DeleteFunc(p.awaited, func(uid string, _ awaited) bool { return !keep(uid) })
}
