package supervisor

import (
	"context"
	"errors"
	"slices"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// hold keeps a process until it ends, which is told then.
func (s *Supervisor) openHandle(t *managedTie, p host.Process) (host.Handle, error) {
	if h := t.handles[p.ID()]; h != nil {
		return h, nil
	}
	h, err := s.Processes.OpenHandle(p, func() {
		s.enqueue(func(ctx context.Context) {
			if s.isCurrent(t) {
				s.handleEnd(ctx, t, p)
			}
		})
	})
	if err == nil {
		t.handles[p.ID()] = h
	}
	return h, err
}

// watchVM gets hold of a VM process that the tie knows, where that has not been done or
// did not work.
func (s *Supervisor) watchVM(ctx context.Context, t *managedTie, p host.Process) {
	_, err := s.openHandle(t, p)
	switch {
	case errors.Is(err, host.ErrGone):
		if t.exits[p.ID()] == "" {
			t.exits[p.ID()] = "it has ended while nobody watched"
		}
		s.handleEnd(ctx, t, p)
	case err != nil:
		s.logger(&t.Tie).Warn("a VM process cannot be watched; it is tried again", "pid", p.PID, "error", err)
	}
}

// reopenHandles gets hold of all processes that the tie knows and that have not ended.
func (s *Supervisor) reopenHandles(ctx context.Context, t *managedTie) {
	for _, v := range slices.Clone(t.VMs) {
		if s.isCurrent(t) {
			s.watchVM(ctx, t, v.Process)
		}
	}
	if t.LauncherProcess == nil || t.LauncherGone != "" || !s.isCurrent(t) || t.handles[t.LauncherProcess.ID()] != nil {
		return
	}
	_, err := s.openHandle(t, *t.LauncherProcess)
	switch {
	case errors.Is(err, host.ErrGone):
		t.endUnseen = t.restored
		s.handleLauncherEnd(t, "nobody watched", 0)
	case err != nil:
		s.logger(&t.Tie).Warn("launcher cannot be watched; it is tried again", "pid", t.LauncherProcess.PID, "error", err)
	default:
		s.watchLauncher(ctx, t, *t.LauncherProcess)
	}
}

// watchLauncher has the tracker tell of the owner's end at once. Without that it is told a
// little later.
func (s *Supervisor) watchLauncher(ctx context.Context, t *managedTie, p host.Process) {
	log := s.logger(&t.Tie)
	s.inBackground(ctx, func(context.Context) func(context.Context) {
		if err := s.Tracker.Watch(p); err != nil && !errors.Is(err, host.ErrGone) {
			log.Warn("the launcher's first process is not tracked", "pid", p.PID, "error", err)
		}
		return nil
	})
}

// launcherAlive reports whether the kernel has the owner yet, as far as that can be told.
func (s *Supervisor) launcherAlive(t *managedTie) bool {
	if t.LauncherProcess == nil {
		return true
	}
	now, err := s.Processes.Identify(t.LauncherProcess.PID)
	return err == nil && now.Same(*t.LauncherProcess) || err != nil && !errors.Is(err, host.ErrGone)
}

// recordAlive notes since when nobody could have missed the end of an owner, for whoever
// comes after an absence. Only what a domain's process belongs to depends on it.
func (s *Supervisor) recordAlive() {
	for _, t := range s.ties {
		if t.Launcher.Domain == "" || t.LauncherProcess == nil || t.LauncherGone != "" {
			continue
		}
		if now := s.Clock.Now(); s.launcherAlive(t) {
			t.AliveAt = now
			s.save(t)
		}
	}
}

func (s *Supervisor) closeHandle(h host.Handle) {
	if err := h.Close(); err != nil {
		s.Logger.Warn("a handle of a process could not be closed", "error", err)
	}
}

func (s *Supervisor) closeHandles() {
	for _, t := range s.ties {
		for _, h := range t.handles {
			s.closeHandle(h)
		}
	}
}
