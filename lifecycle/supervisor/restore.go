package supervisor

import (
	"context"
	"errors"
	"fmt"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// Restore takes over the stored ties. Call it before Run.
func (s *Supervisor) Restore() error {
	stored, err := s.Store.Load()
	for _, t := range stored {
		s.enqueue(func(ctx context.Context) { s.restoreTie(ctx, t) })
	}
	err = errors.Join(err, s.restoreAllFormer())
	if err != nil {
		return fmt.Errorf("restore the ties of earlier launchers: %w", err)
	}
	return nil
}

// restoreAllFormer takes over the stored former launchers, after the ties.
func (s *Supervisor) restoreAllFormer() error {
	if s.Former == nil {
		return nil
	}
	stored, err := s.Former.Load()
	for _, t := range stored {
		s.enqueue(func(context.Context) { s.restoreFormer(t) })
	}
	return err
}

// restoreTie adds a stored tie. A stop in progress goes on under the present policy.
func (s *Supervisor) restoreTie(ctx context.Context, stored tie.Tie) {
	if s.ties[stored.Launcher.Container.ID] != nil {
		return
	}
	stored.Heartbeat.At = s.Clock.Now() // the agent was away and has observed none
	t := s.addTie(stored)
	t.restored, t.othersUnknown = true, true
	s.logger(t).Info("launcher taken over", "phase", t.Phase, "vms", len(t.VMs))
	if t.Launcher.Group != 0 {
		s.byGroup[t.Launcher.Group] = t
		s.restoreTracking(t)
	}
	s.changeTerms(t)
	s.updateStopHandlers(t.Launcher.Pod.UID, restartReconnectWait)
	s.reopenHandles(ctx, t)
	s.readPodDir(t)
	s.requestScan(ctx, t)
	if end := t.LastEnd; end != nil && end.Reason == "" {
		s.explainEnd(t, *end)
	}
}

// restoreTracking registers an existing cgroup again, because the tracker may be new. A full
// tracker has no group for it.
func (s *Supervisor) restoreTracking(t *managedTie) {
	exists, err := s.Processes.Exists(t.Launcher.Cgroup)
	if err == nil && exists {
		_, err = s.Tracker.Register(t.Launcher.Cgroup)
	}
	if err == nil || errors.Is(err, host.ErrGone) {
		return
	}
	s.warnUntracked(t, err)
	delete(s.byGroup, t.Launcher.Group)
	t.Launcher.Group = 0
}
