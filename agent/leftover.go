package agent

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/lifecycle"
)

// leftoverDelay is how long the launchers that the runtime has told of may take to be
// registered again.
const leftoverDelay = 5 * time.Second

// leftovers are the cgroups that were registered before this agent was here, and that
// nobody has asked for since. The fence changes nothing of the tracker: what it has
// ended stays registered until this agent forgets it.
type leftovers struct {
	mu     sync.Mutex // held while one is registered or forgotten, against the other
	groups map[uint64]bool
}

// note takes what is registered. To be called before anything is by this agent.
func (l *leftovers) note(registered []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.groups = make(map[uint64]bool, len(registered))
	for _, group := range registered {
		l.groups[group] = true
	}
}

// claim registers a group that is none that is left over, now or later.
func (l *leftovers) claim(group uint64, register func(uint64) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.groups, group)
	return register(group)
}

// forget unregisters what is left over, but for the groups of ties.
func (l *leftovers) forget(ties []lifecycle.Tie, unregister func(uint64) error) (forgotten int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range ties {
		delete(l.groups, ties[i].Launcher.Group)
	}
	for group := range maps.Clone(l.groups) {
		if err := unregister(group); err != nil {
			return forgotten, err
		}
		delete(l.groups, group)
		forgotten++
	}
	return forgotten, nil
}

// Reconciled implements [plugin.Ties].
func (v *supervision) Reconciled() {
	v.Supervisor.Reconciled()
	v.known.Do(func() { close(v.reconciled) })
}

// forgetLeftovers forgets, once the runtime has said which launchers run, the cgroups
// that are registered and that no launcher has. It does that once.
func (a *Agent) forgetLeftovers(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-a.supervision.reconciled:
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(leftoverDelay):
	}
	n, err := a.tracker.forgetBut(a.config)
	switch {
	case err != nil:
		a.logger.Warn("cgroups that no launcher has may still be tracked", "error", err)
	case n > 0:
		a.logger.Info("cgroups that no launcher has are tracked no more", "cgroups", n)
	}
}

// forgetBut forgets what is left over. What is tied is asked of the store, which has
// all that is tied and registered; where it cannot be read as a whole, nothing is
// forgotten.
func (t *tracker) forgetBut(config Config) (forgotten int, err error) {
	store, err := lifecycle.OpenFileStore(config.Root, config.Proc) // the supervisor's is its own
	if err != nil {
		return 0, err
	}
	defer store.Close()
	ties, err := store.Load()
	if err != nil {
		return 0, fmt.Errorf("which launchers there are: %w", err)
	}
	return t.left.forget(ties, t.Tracker.Unregister)
}
