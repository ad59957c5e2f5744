package supervisor

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// handle is the handle of a process of a tie.
type handle struct {
	host.Handle
	how string // exit code or signal, which the tracker reports before the process has ended
}

// openHandle returns the handle of a process, and opens it the first time. The handle notifies of
// the end of the process.
func (s *Supervisor) openHandle(t *managedTie, p host.Process) (*handle, error) {
	if h := t.handles[p.ID()]; h != nil {
		return h, nil
	}
	h := &handle{}
	var err error
	h.Handle, err = s.Processes.OpenHandle(p, func() {
		s.enqueue(func(ctx context.Context) {
			if s.isCurrent(t) {
				s.handleEnd(ctx, t, p, h.how)
			}
		})
	})
	if err != nil {
		return nil, err
	}
	t.handles[p.ID()] = h
	return h, nil
}

// watchVM opens the handle of a VM process of the tie if it has none. how is the reported exit code
// or signal of a process that ends.
func (s *Supervisor) watchVM(ctx context.Context, t *managedTie, p host.Process, how string) {
	h, err := s.openHandle(t, p)
	switch {
	case errors.Is(err, host.ErrGone):
		s.handleEnd(ctx, t, p, cmp.Or(how, "the agent has not observed its end"))
	case err != nil:
		s.logger(t).Warn("the agent cannot watch a VM process; it retries", "pid", p.PID,
			"error", err)
	case how != "":
		h.how = how
	}
}

// reopenHandles opens the missing handles of the tie's processes.
func (s *Supervisor) reopenHandles(ctx context.Context, t *managedTie) {
	for _, v := range slices.Clone(t.VMs) {
		if s.isCurrent(t) {
			s.watchVM(ctx, t, v.Process, "")
		}
	}
	if t.LauncherProcess == nil || t.LauncherGone != "" || !s.isCurrent(t) {
		return
	}
	p := *t.LauncherProcess
	if t.handles[p.ID()] != nil {
		return
	}
	_, err := s.openHandle(t, p)
	switch {
	case errors.Is(err, host.ErrGone):
		t.endUnseen = t.restored
		s.handleLauncherEnd(t, "the agent has not observed its end", 0)
	case err != nil:
		s.logger(t).Warn("the agent cannot watch a launcher; it retries", "pid", p.PID,
			"error", err)
	default:
		s.watchLauncher(ctx, t, p)
	}
}

// watchLauncher asks the tracker for an event at the end of the launcher process, and for its exact
// start time. Its handle notifies of the end a little later.
func (s *Supervisor) watchLauncher(ctx context.Context, t *managedTie, p host.Process) {
	log := s.logger(t)
	s.inBackground(ctx, func(context.Context) func(context.Context) {
		exact, err := s.Tracker.Watch(p)
		switch {
		case err == nil:
			return func(context.Context) { s.setExactStart(t, exact) }
		case !errors.Is(err, host.ErrGone):
			log.Warn("the tracker cannot watch the launcher process", "pid", p.PID, "error", err)
		}
		return nil
	})
}

// setExactStart sets the start time of the launcher process, of which procfs only has the tick.
func (s *Supervisor) setExactStart(t *managedTie, exact host.Process) {
	if s.isCurrent(t) && t.LauncherProcess != nil && t.LauncherProcess.Same(exact) {
		t.LauncherProcess = &exact
		s.save(t)
	}
}

// launcherAlive reports whether the launcher process runs. Without an answer of the kernel it
// returns true.
func (s *Supervisor) launcherAlive(t *managedTie) bool {
	return t.LauncherProcess == nil || !s.processEnded(*t.LauncherProcess)
}

// processEnded reports whether a process has ended. A zombie has, although the kernel still knows
// it.
func (s *Supervisor) processEnded(p host.Process) bool {
	h, err := s.Processes.OpenHandle(p, func() {})
	if err == nil {
		s.closeHandle(h)
	}
	return errors.Is(err, host.ErrGone)
}

// recordAlive records that the launchers with a declared domain are alive. After an absence, this
// time decides to which launcher a domain's process belongs.
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

// dropHandle closes the handle of a process that is no VM process any more, if there is one.
func (s *Supervisor) dropHandle(t *managedTie, p host.Process) {
	if h := t.handles[p.ID()]; h != nil {
		delete(t.handles, p.ID())
		s.closeHandle(h)
	}
}

func (s *Supervisor) closeHandle(h host.Handle) {
	if err := h.Close(); err != nil {
		s.Logger.Warn("the agent cannot close the handle of a process", "error", err)
	}
}

func (s *Supervisor) closeHandles() {
	for _, t := range s.ties {
		for _, h := range t.handles {
			s.closeHandle(h)
		}
	}
}
