package plugin

import (
	"maps"
	"slices"
	"sync"
)

// keptDirs holds the pods whose directory outlives them: the runtime has forgotten the pod, and its
// VM still runs. Several goroutines may call its methods at once.
type keptDirs struct {
	mu   sync.Mutex
	uids map[string]bool
}

func (k *keptDirs) add(uid string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.uids == nil {
		k.uids = map[string]bool{}
	}
	k.uids[uid] = true
}

// take returns all pods and removes them.
func (k *keptDirs) take() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	uids := slices.Collect(maps.Keys(k.uids))
	clear(k.uids)
	return uids
}

// keepsDir reports whether a VM still needs the directory of a pod unknown to the runtime. It
// records such pods, and a later round discards their directories.
func (p *Plugin) keepsDir(uid string) bool {
	keeps := p.keepsPod(uid)
	if keeps {
		p.kept.add(uid)
	}
	return keeps
}

// discardKept discards recorded directories without a VM. It reports whether there may be any.
func (p *Plugin) discardKept() (some bool) {
	for _, uid := range p.kept.take() {
		some = some || !p.keepsPod(uid)
		if err := p.PodDirs.DiscardUnless(uid, p.keepsDir); err != nil {
			p.kept.add(uid)
			p.Logger.Warn("directory of a former pod not discarded, retrying later", "uid", uid,
				"error", err)
		}
	}
	return some
}
