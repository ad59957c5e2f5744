package poddir

import "sync"

// podChanges collects the UIDs of created and removed pod directories for one reader. Without a
// reader it collects none.
type podChanges struct {
	some chan struct{} // signals that UIDs are available

	mu   sync.Mutex
	uids map[string]struct{} // nil without a reader
}

// start returns false if there already is a reader.
func (c *podChanges) start() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uids != nil {
		return false
	}
	c.uids = map[string]struct{}{}
	return true
}

func (c *podChanges) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uids = nil
}

// add never blocks on the reader.
func (c *podChanges) add(uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uids == nil {
		return
	}
	c.uids[uid] = struct{}{}
	select {
	case c.some <- struct{}{}:
	default:
	}
}

func (c *podChanges) take() map[string]struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.uids
	c.uids = map[string]struct{}{}
	return taken
}
