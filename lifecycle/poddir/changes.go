package poddir

import "sync"

// podChanges collects which pod directories have come or gone, for the one that
// watches them. While nobody watches, nothing is collected.
type podChanges struct {
	some chan struct{} // has an element when there is something to take

	mu   sync.Mutex
	uids map[string]struct{} // nil while nobody watches
}

// begin is false when somebody watches already.
func (c *podChanges) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.uids != nil {
		return false
	}
	c.uids = map[string]struct{}{}
	return true
}

func (c *podChanges) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uids = nil
}

// add never blocks on who watches.
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
