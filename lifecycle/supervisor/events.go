package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

const (
	// forkDelay is how long a child of an emulator has to execute something else,
	// as QEMU's helpers do at once.
	forkDelay = 500 * time.Millisecond

	// domainsEvery is how often domains are looked at, however often somebody asks.
	domainsEvery = 250 * time.Millisecond
)

// sighted takes what the tracker tells.
func (s *Supervisor) sighted(ctx context.Context, seen ProcessEvent) {
	t := s.byGroup[seen.Group]
	switch {
	case seen.Ended:
		s.sightedEnd(ctx, seen)
	case seen.Executable == "":
		s.left(ctx, seen.Process)
	case t != nil && seen.Forked:
		s.lookSoon(t)
	case t != nil:
		s.introduce(ctx, t, seen.Tracked)
	default:
		s.lookAtDomains(ctx) // libvirt may have started it for a launcher
	}
}

// sightedEnd takes the tracker's word for a launcher's end: nobody comes back from
// there. Its VM processes are gone only when their pidfds say so, for till then they
// have their memory, files and devices.
func (s *Supervisor) sightedEnd(ctx context.Context, seen ProcessEvent) {
	for _, t := range s.ties { // each has few processes
		if t.VM(seen.Process) != nil {
			t.how[seen.Process.ID()] = seen.How
			s.holdVM(ctx, t, seen.Process)
		}
		if t.Owner != nil && t.Owner.Same(seen.Process) {
			s.ownerEnded(t, seen.How, seen.At)
			if t.blind { // now it is known what was started in its lifetime
				s.want(ctx, t, t.PendingScan())
			}
		}
	}
}

// left takes it that a VM process executes something else now.
func (s *Supervisor) left(ctx context.Context, p host.Process) {
	for _, t := range s.ties {
		if t.VM(p) != nil {
			t.how[p.ID()] = "it executes another file"
			s.ended(ctx, t, p)
		}
	}
}

// ended takes the end of a process that a tie holds on to.
func (s *Supervisor) ended(ctx context.Context, t *tied, p host.Process) {
	how := t.how[p.ID()]
	delete(t.how, p.ID())
	if t.VM(p) != nil {
		s.step(t, tie.VMEnded{Process: p, How: how})
	}
	if t.Owner != nil && t.Owner.Same(p) {
		s.ownerEnded(t, how, 0)
	}
	if h := t.handles[p.ID()]; h != nil && s.current(t) {
		delete(t.handles, p.ID())
		s.close(h)
	}
	for _, other := range s.ties { // one of which may have waited for it
		if other.Launcher.Pod.UID == t.Launcher.Pod.UID {
			s.want(ctx, other, other.PendingScan())
		}
	}
}

// ownerEnded takes it that a launcher's first process has ended, at that moment if that
// is known. Where it was only found to be gone, the moment may be told yet.
func (s *Supervisor) ownerEnded(t *tied, how string, at host.Boottime) {
	if t.OwnerGone != "" && (!t.blind || at == 0) || !s.current(t) {
		return
	}
	proof := fmt.Sprintf("its first process, %d, has ended", t.Owner.PID)
	if how != "" {
		proof += ": " + how
	}
	ended := tie.OwnerEnded{Proof: proof, LastSeen: at}
	if t.blind && at == 0 {
		ended.LastSeen = max(t.AliveAt, t.Since)
	}
	s.step(t, ended)
}

// introduce gets hold of a process that runs an emulator, unless that is a probe.
func (s *Supervisor) introduce(ctx context.Context, t *tied, p Tracked) {
	if t.VM(p.Process) != nil || t.coming[p.ID()] || len(t.VMs)+len(t.coming) >= maxVMs {
		return
	}
	t.coming[p.ID()] = true
	s.aside(ctx, func(ctx context.Context) func(context.Context) {
		args, err := s.arguments(ctx, p.Process, reader{group: p.Group})
		return func(context.Context) {
			delete(t.coming, p.ID())
			switch {
			case s.isProbe(p.Process, args), errors.Is(err, host.ErrGone):
				return
			case errors.Is(err, errBusy):
				s.lookSoon(t)
				return
			case err != nil:
				s.log(&t.Tie).Warn("taken for a VM", "pid", p.PID, "error", err)
			}
			s.enter(t, tie.VM{Process: p.Process, Executable: p.Executable})
		}
	})
}

// lookSoon looks at what an emulator has forked: QEMU makes itself a daemon so.
func (s *Supervisor) lookSoon(t *tied) { s.lookLater(t, &t.lookDue, forkDelay) }

// lookAfter looks at a launcher that has nothing left once more, before it is forgotten.
func (s *Supervisor) lookAfter(t *tied, wait time.Duration) { s.lookLater(t, &t.dropDue, wait) }

// lookLater looks at a launcher in a while, unless that is due already.
func (s *Supervisor) lookLater(t *tied, due *bool, wait time.Duration) {
	if *due {
		return
	}
	*due = true
	time.AfterFunc(wait, func() {
		s.put(func(ctx context.Context) {
			if *due = false; s.current(t) {
				s.want(ctx, t, t.PendingScan())
			}
		})
	})
}

// lookAtDomains has launchers looked at whose VM processes are told without saying whose
// they are: those of the domains that they declare, and all of one without a group.
func (s *Supervisor) lookAtDomains(ctx context.Context) {
	if !s.domainsDue && s.lookOutside(ctx) {
		s.domainsDue = true
		time.AfterFunc(domainsEvery, func() { s.put(s.domainsAgain) })
	}
}

// domainsAgain looks once more for those who have asked meanwhile: they may have asked
// after the look before.
func (s *Supervisor) domainsAgain(ctx context.Context) {
	s.domainsDue = false
	s.lookOutside(ctx)
}

// lookOutside takes one look for all of those launchers, and returns whether there are
// any. What it means is only of interest to those that wait for something.
func (s *Supervisor) lookOutside(ctx context.Context) bool {
	found := false
	for _, t := range s.ties {
		outside := t.Launcher.Domain != "" && s.Domains != nil || t.Launcher.Group == 0 && t.Launcher.Cgroup != ""
		if outside && (!found || t.PendingScan() != 0 || t.Over()) {
			s.looks.wanted[t] = max(s.looks.wanted[t], t.PendingScan())
			found = true
		}
	}
	if found && !s.looks.busy {
		s.look(ctx)
	}
	return found
}

// aside does what may take its time in a goroutine of its own, and then what it
// returns in that of Run.
func (s *Supervisor) aside(ctx context.Context, work func(context.Context) func(context.Context)) {
	s.slow.Go(func() {
		if then := work(ctx); then != nil && ctx.Err() == nil {
			s.put(then)
		}
	})
}
