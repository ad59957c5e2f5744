package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// forkDelay is how long a child of an emulator has to execute something else,
	// as QEMU's helpers do at once.
	forkDelay = 500 * time.Millisecond

	// domainsEvery is how often domains are looked at, however often somebody asks.
	domainsEvery = 250 * time.Millisecond
)

// sighted takes what the tracker tells.
func (s *Supervisor) sighted(ctx context.Context, seen Sighting) {
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
func (s *Supervisor) sightedEnd(ctx context.Context, seen Sighting) {
	for _, t := range s.ties { // each has few processes
		if t.vm(seen.Process) != nil {
			t.how[seen.Process.name()] = seen.How
			s.holdVM(ctx, t, seen.Process)
		}
		if t.Owner != nil && t.Owner.is(seen.Process) {
			s.ownerEnded(t, seen.How)
		}
	}
}

// left takes it that a VM process executes something else now.
func (s *Supervisor) left(ctx context.Context, p Process) {
	for _, t := range s.ties {
		if t.vm(p) != nil {
			t.how[p.name()] = "it executes another file"
			s.ended(ctx, t, p)
		}
	}
}

// ended takes the end of a process that a tie holds on to.
func (s *Supervisor) ended(ctx context.Context, t *tied, p Process) {
	how := t.how[p.name()]
	delete(t.how, p.name())
	if t.vm(p) != nil {
		s.step(t, VMEnded{Process: p, How: how})
	}
	if t.Owner != nil && t.Owner.is(p) {
		s.ownerEnded(t, how)
	}
	if h := t.handles[p.name()]; h != nil && s.current(t) {
		delete(t.handles, p.name())
		s.close(h)
	}
	for _, other := range s.ties { // one of which may have waited for it
		if other.Launcher.Pod.UID == t.Launcher.Pod.UID {
			s.want(ctx, other, other.wanted())
		}
	}
}

func (s *Supervisor) ownerEnded(t *tied, how string) {
	if t.OwnerGone != "" || !s.current(t) {
		return
	}
	proof := fmt.Sprintf("its first process, %d, has ended", t.Owner.PID)
	if how != "" {
		proof += ": " + how
	}
	s.step(t, OwnerEnded{Proof: proof})
}

// introduce gets hold of a process that runs an emulator, unless that is a probe.
func (s *Supervisor) introduce(ctx context.Context, t *tied, p Tracked) {
	if t.vm(p.Process) != nil || t.coming[p.name()] || len(t.VMs)+len(t.coming) >= maxVMs {
		return
	}
	t.coming[p.name()] = true
	s.aside(ctx, func(ctx context.Context) func(context.Context) {
		args, err := s.arguments(ctx, p.Process)
		return func(context.Context) {
			delete(t.coming, p.name())
			if s.isProbe(p.Process, args) || errors.Is(err, ErrGone) {
				return
			}
			if err != nil {
				s.log(&t.Tie).Warn("taken for a VM", "pid", p.PID, "error", err)
			}
			s.enter(t, VM{Process: p.Process, Executable: p.Executable})
		}
	})
}

// lookSoon looks at what an emulator has forked: QEMU makes itself a daemon so.
func (s *Supervisor) lookSoon(t *tied) {
	if t.lookDue {
		return
	}
	t.lookDue = true
	time.AfterFunc(forkDelay, func() {
		s.put(func(ctx context.Context) {
			if t.lookDue = false; s.current(t) {
				s.want(ctx, t, t.wanted())
			}
		})
	})
}

// lookAtDomains has the domains looked at that launchers declare.
func (s *Supervisor) lookAtDomains(ctx context.Context) {
	if s.Domains == nil || s.domainsDue {
		return
	}
	for _, t := range s.ties {
		if t.Launcher.Domain != "" {
			s.want(ctx, t, t.wanted()) // one look is for all
			s.domainsDue = true
			time.AfterFunc(domainsEvery, func() { s.put(s.domainsAgain) })
			return
		}
	}
}

// domainsAgain looks once more for those who have asked meanwhile: they may have asked
// after the look before.
func (s *Supervisor) domainsAgain(ctx context.Context) {
	s.domainsDue = false
	for _, t := range s.ties {
		if t.Launcher.Domain != "" {
			s.want(ctx, t, t.wanted())
			return
		}
	}
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
