package plugin

import (
	"maps"
	"slices"
	"sync"
)

// keptDirs are the pods whose directory outlives them: the runtime has forgotten them,
// and their VM has not ended. Its methods may be called from several goroutines at once.
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

// take returns them all, and forgets them.
func (k *keptDirs) take() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	uids := slices.Collect(maps.Keys(k.uids))
	clear(k.uids)
	return uids
}

// keepsDir reports whether the directory of a pod that the runtime does not know is
// kept, and notes which are, so that a later round discards them.
func (p *Plugin) keepsDir(uid string) bool {
	keeps := p.keepsPod(uid)
	if keeps {
		p.kept.add(uid)
	}
	return keeps
}

// discardKept discards the directories of which nothing is left that needs them, and
// reports whether there may be one.
func (p *Plugin) discardKept() (some bool) {
	for _, uid := range p.kept.take() {
		some = some || !p.keepsPod(uid)
		if err := p.PodDirs.DiscardUnless(uid, p.keepsDir); err != nil {
			p.kept.add(uid)
			p.Logger.Warn("the directory of a former pod stays for now", "uid", uid, "error", err)
		}
	}
	return some
}
