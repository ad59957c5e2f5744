package agent

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// leftoverDelay is the time for launchers in the runtime's list to be registered again.
const leftoverDelay = 5 * time.Second

// leftovers are cgroups registered with the tracker by an earlier agent, and not yet by this one.
// The fence only reads the tracker. After the fence has stopped a launcher's VM, the launcher's
// cgroup stays registered until this agent releases it.
type leftovers struct {
	mu     sync.Mutex // held during a call of the tracker, too
	groups map[uint64]bool
}

// reset takes the registered cgroups. It must be called before this agent registers any.
func (l *leftovers) reset(registered []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.groups = make(map[uint64]bool, len(registered))
	for _, group := range registered {
		l.groups[group] = true
	}
}

// claim registers a cgroup and removes it from the leftovers.
func (l *leftovers) claim(group uint64, register func(uint64) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.groups, group)
	return register(group)
}

// release unregisters all leftovers, except the cgroups of ties. It stops at the first error.
func (l *leftovers) release(ties []tie.Tie, unregister func(uint64) error) (
	released int, err error,
) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range ties {
		delete(l.groups, ties[i].Launcher.Group)
	}
	for group := range maps.Clone(l.groups) {
		if err := unregister(group); err != nil {
			return released, err
		}
		delete(l.groups, group)
		released++
	}
	return released, nil
}

// Reconciled implements [plugin.Ties].
func (v *supervision) Reconciled() {
	v.Supervisor.Reconciled()
	v.reconcileOnce.Do(func() { close(v.reconciled) })
}

// releaseLeftovers unregisters cgroups without a launcher. It does so once, after the runtime has
// listed the running launchers.
func (a *Agent) releaseLeftovers(ctx context.Context) {
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
	n, err := a.tracker.releaseLeftovers(a.config)
	switch {
	case err != nil:
		a.logger.Warn("the tracker may still track cgroups without a launcher", "error", err)
	case n > 0:
		a.logger.Info("the tracker no longer tracks cgroups without a launcher", "cgroups", n)
	}
}

// releaseLeftovers unregisters cgroups without a tie in the store. The store has every tie
// with a registered cgroup. If a part of the store is unreadable, all cgroups stay
// registered.
func (t *tracker) releaseLeftovers(config Config) (released int, err error) {
	// The supervisor does not share its store.
	store, err := supervisor.OpenFileStore(config.Root, config.Proc)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	ties, err := store.Load()
	if err != nil {
		return 0, fmt.Errorf("list the ties: %w", err)
	}
	return t.leftovers.release(ties, t.Tracker.Unregister)
}
