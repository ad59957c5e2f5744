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
	// launcherTimeout is the time for a launcher to appear after another container of its pod has
	// started. After it, the annotation is probably misspelled.
	launcherTimeout = 2 * time.Minute

	// maxAwaited bounds the number of pods with an awaited launcher.
	maxAwaited = 1024
)

// awaitedPod is a running pod without the launcher that its annotation names.
type awaitedPod struct {
	launcher registry.Launcher
	since    time.Time
	reported bool
}

// awaitLauncher records a pod that names a launcher, when another container has started. It skips
// pods with a profile, because ConflictingLauncher has reported their misspelled annotation.
func (p *Plugin) awaitLauncher(pod *nri.PodSandbox) {
	name, ok, _ := api.Launcher(pod.GetAnnotations())
	if _, profile := p.Policy.Get().Profile(pod.GetLabels()); !ok || profile {
		return
	}
	p.deciding.Lock()
	defer p.deciding.Unlock()
	if _, ok := p.awaited[pod.GetUid()]; ok || len(p.awaited) >= maxAwaited {
		return
	}
	l := agentapi.Launcher{Pod: podRef(pod), Container: agentapi.ContainerRef{Name: name}}
	p.awaited[pod.GetUid()] = awaitedPod{launcher: registry.Launcher{Launcher: l},
		since: time.Now()}
}

// reportMissing reports launchers that did not appear, once for each pod.
func (p *Plugin) reportMissing() {
	for _, l := range p.missing() {
		p.report(registry.Launcher{Launcher: agentapi.Launcher{Pod: l.Pod}}, decide.Remark{
			Type: agentapi.Warning, Reason: agentapi.ReasonAnnotationInvalid,
			Message: fmt.Sprintf("annotation %s names container %q, which was not created: "+
				"another container of the pod has started more than %s ago",
				api.LauncherKey, l.Container.Name, launcherTimeout),
		})
	}
}

// missing returns the overdue launchers without a report, and forgets pods whose launcher has
// appeared.
func (p *Plugin) missing() (all []registry.Launcher) {
	p.deciding.Lock()
	defer p.deciding.Unlock()
	for uid, a := range p.awaited {
		if _, came := p.Registry.Get(a.launcher.Key()); came {
			delete(p.awaited, uid)
			continue
		}
		if a.reported || time.Since(a.since) < launcherTimeout {
			continue
		}
		a.reported = true // the pod stays in the map, so there is one report
		p.awaited[uid] = a
		all = append(all, a.launcher)
	}
	return all
}

// retainAwaited forgets the pods for which keep returns false.
func (p *Plugin) retainAwaited(keep func(uid string) bool) {
	p.deciding.Lock()
	defer p.deciding.Unlock()
	maps.DeleteFunc(p.awaited, func(uid string, _ awaitedPod) bool { return !keep(uid) })
}
