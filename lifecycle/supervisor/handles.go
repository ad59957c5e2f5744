package supervisor

import (
	"context"
	"errors"
	"slices"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// hold keeps a process until it ends, which is told then.
func (s *Supervisor) hold(t *tied, p host.Process) (host.Handle, error) {
	if h := t.handles[p.ID()]; h != nil {
		return h, nil
	}
	h, err := s.Processes.Hold(p, func() {
		s.put(func(ctx context.Context) {
			if s.current(t) {
				s.ended(ctx, t, p)
			}
		})
	})
	if err == nil {
		t.handles[p.ID()] = h
	}
	return h, err
}

// holdVM gets hold of a VM process that the tie knows, where that has not been done or
// did not work.
func (s *Supervisor) holdVM(ctx context.Context, t *tied, p host.Process) {
	_, err := s.hold(t, p)
	switch {
	case errors.Is(err, host.ErrGone):
		if t.how[p.ID()] == "" {
			t.how[p.ID()] = "it has ended while nobody watched"
		}
		s.ended(ctx, t, p)
	case err != nil:
		s.log(&t.Tie).Warn("a VM process cannot be watched; it is tried again", "pid", p.PID, "error", err)
	}
}

// holdAgain gets hold of all processes that the tie knows and that have not ended.
func (s *Supervisor) holdAgain(ctx context.Context, t *tied) {
	for _, v := range slices.Clone(t.VMs) {
		if s.current(t) {
			s.holdVM(ctx, t, v.Process)
		}
	}
	if t.Owner == nil || t.OwnerGone != "" || !s.current(t) || t.handles[t.Owner.ID()] != nil {
		return
	}
	_, err := s.hold(t, *t.Owner)
	switch {
	case errors.Is(err, host.ErrGone):
		t.blind = t.restored
		s.ownerEnded(t, "nobody watched", 0)
	case err != nil:
		s.log(&t.Tie).Warn("launcher cannot be watched; it is tried again", "pid", t.Owner.PID, "error", err)
	default:
		s.watch(ctx, t, *t.Owner)
	}
}

// watch has the tracker tell of the owner's end at once. Without that it is told a
// little later.
func (s *Supervisor) watch(ctx context.Context, t *tied, p host.Process) {
	log := s.log(&t.Tie)
	s.aside(ctx, func(context.Context) func(context.Context) {
		if err := s.Tracker.Watch(p); err != nil && !errors.Is(err, host.ErrGone) {
			log.Warn("the launcher's first process is not tracked", "pid", p.PID, "error", err)
		}
		return nil
	})
}

// ownerLives reports whether the kernel has the owner yet, as far as that can be told.
func (s *Supervisor) ownerLives(t *tied) bool {
	if t.Owner == nil {
		return true
	}
	now, err := s.Processes.Identify(t.Owner.PID)
	return err == nil && now.Same(*t.Owner) || err != nil && !errors.Is(err, host.ErrGone)
}

// noteAlive notes since when nobody could have missed the end of an owner, for whoever
// comes after an absence. Only what a domain's process belongs to depends on it.
func (s *Supervisor) noteAlive() {
	for _, t := range s.ties {
		if t.Launcher.Domain == "" || t.Owner == nil || t.OwnerGone != "" {
			continue
		}
		if now := s.Clock.Now(); s.ownerLives(t) {
			t.AliveAt = now
			s.keep(t)
		}
	}
}

func (s *Supervisor) close(h host.Handle) {
	if err := h.Close(); err != nil {
		s.Logger.Warn("a handle of a process could not be closed", "error", err)
	}
}

func (s *Supervisor) closeAll() {
	for _, t := range s.ties {
		for _, h := range t.handles {
			s.close(h)
		}
	}
}
