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

	// domainScanInterval is how often domains are looked at, however often somebody asks.
	domainScanInterval = 250 * time.Millisecond
)

// handleProcessEvent takes what the tracker tells.
func (s *Supervisor) handleProcessEvent(ctx context.Context, seen ProcessEvent) {
	t := s.byGroup[seen.Group]
	switch {
	case seen.Ended:
		s.handleTrackedEnd(ctx, seen)
	case seen.Executable == "":
		s.handleOtherFile(ctx, seen.Process)
	case t != nil && seen.Forked:
		s.scanAfterFork(t)
	case t != nil:
		s.examineEmulator(ctx, t, seen.Tracked)
	default:
		s.scanDomains(ctx) // libvirt may have started it for a launcher
	}
}

// handleTrackedEnd takes the tracker's word for a launcher's end: nobody comes back from
// there. Its VM processes are gone only when their pidfds say so, for till then they
// have their memory, files and devices.
func (s *Supervisor) handleTrackedEnd(ctx context.Context, seen ProcessEvent) {
	for _, t := range s.ties { // each has few processes
		if t.VM(seen.Process) != nil {
			t.exits[seen.Process.ID()] = seen.How
			s.watchVM(ctx, t, seen.Process)
		}
		if t.LauncherProcess != nil && t.LauncherProcess.Same(seen.Process) {
			s.handleLauncherEnd(t, seen.How, seen.At)
			if t.endUnseen { // now it is known what was started in its lifetime
				s.requestScan(ctx, t, t.PendingScan())
			}
		}
	}
}

// handleOtherFile takes it that a VM process executes something else now.
func (s *Supervisor) handleOtherFile(ctx context.Context, p host.Process) {
	for _, t := range s.ties {
		if t.VM(p) != nil {
			t.exits[p.ID()] = "it executes another file"
			s.handleEnd(ctx, t, p)
		}
	}
}

// handleEnd takes the end of a process that a tie holds on to.
func (s *Supervisor) handleEnd(ctx context.Context, t *managedTie, p host.Process) {
	how := t.exits[p.ID()]
	delete(t.exits, p.ID())
	if t.VM(p) != nil {
		s.step(t, tie.VMEnded{Process: p, How: how})
	}
	if t.LauncherProcess != nil && t.LauncherProcess.Same(p) {
		s.handleLauncherEnd(t, how, 0)
	}
	if h := t.handles[p.ID()]; h != nil && s.isCurrent(t) {
		delete(t.handles, p.ID())
		s.closeHandle(h)
	}
	for _, other := range s.ties { // one of which may have waited for it
		if other.Launcher.Pod.UID == t.Launcher.Pod.UID {
			s.requestScan(ctx, other, other.PendingScan())
		}
	}
}

// handleLauncherEnd takes it that a launcher's first process has ended, at that moment if that
// is known. Where it was only found to be gone, the moment may be told yet.
func (s *Supervisor) handleLauncherEnd(t *managedTie, how string, at host.Boottime) {
	if t.LauncherGone != "" && (!t.endUnseen || at == 0) || !s.isCurrent(t) {
		return
	}
	proof := fmt.Sprintf("its first process, %d, has ended", t.LauncherProcess.PID)
	if how != "" {
		proof += ": " + how
	}
	ended := tie.LauncherEnded{Proof: proof, LastSeen: at}
	if t.endUnseen && at == 0 {
		ended.LastSeen = max(t.AliveAt, t.Since)
	}
	s.step(t, ended)
}

// examineEmulator gets hold of a process that runs an emulator, unless that is a probe.
func (s *Supervisor) examineEmulator(ctx context.Context, t *managedTie, p Tracked) {
	if t.VM(p.Process) != nil || t.examining[p.ID()] || len(t.VMs)+len(t.examining) >= maxVMs {
		return
	}
	t.examining[p.ID()] = true
	s.inBackground(ctx, func(ctx context.Context) func(context.Context) {
		args, err := s.readArguments(ctx, p.Process, argumentsReader{group: p.Group})
		return func(context.Context) {
			delete(t.examining, p.ID())
			switch {
			case s.isProbe(p.Process, args), errors.Is(err, host.ErrGone):
				return
			case errors.Is(err, errNotReadYet):
				s.scanAfterFork(t)
				return
			case err != nil:
				s.logger(&t.Tie).Warn("taken for a VM", "pid", p.PID, "error", err)
			}
			s.addVM(t, tie.VM{Process: p.Process, Executable: p.Executable})
		}
	})
}

// scanAfterFork looks at what an emulator has forked: QEMU makes itself a daemon so.
func (s *Supervisor) scanAfterFork(t *managedTie) { s.scanLater(t, &t.scanDue, forkDelay) }

// scanBeforeDrop looks at a launcher that has nothing left once more, before it is forgotten.
func (s *Supervisor) scanBeforeDrop(t *managedTie, wait time.Duration) {
	s.scanLater(t, &t.dropScanDue, wait)
}

// scanLater looks at a launcher in a while, unless that is due already.
func (s *Supervisor) scanLater(t *managedTie, due *bool, wait time.Duration) {
	if *due {
		return
	}
	*due = true
	time.AfterFunc(wait, func() {
		s.enqueue(func(ctx context.Context) {
			if *due = false; s.isCurrent(t) {
				s.requestScan(ctx, t, t.PendingScan())
			}
		})
	})
}

// scanDomains has launchers looked at whose VM processes are told without saying whose
// they are: those of the domains that they declare, and all of one without a group.
func (s *Supervisor) scanDomains(ctx context.Context) {
	if !s.domainScanDue && s.scanUntracked(ctx) {
		s.domainScanDue = true
		time.AfterFunc(domainScanInterval, func() { s.enqueue(s.scanDomainsAgain) })
	}
}

// scanDomainsAgain looks once more for those who have asked meanwhile: they may have asked
// after the look before.
func (s *Supervisor) scanDomainsAgain(ctx context.Context) {
	s.domainScanDue = false
	s.scanUntracked(ctx)
}

// scanUntracked takes one look for all of those launchers, and returns whether there are
// any. What it means is only of interest to those that wait for something.
func (s *Supervisor) scanUntracked(ctx context.Context) bool {
	found := false
	for _, t := range s.ties {
		outside := t.Launcher.Domain != "" && s.Domains != nil || t.Launcher.Group == 0 && t.Launcher.Cgroup != ""
		if outside && (!found || t.PendingScan() != 0 || t.Over()) {
			s.scans.requested[t] = max(s.scans.requested[t], t.PendingScan())
			found = true
		}
	}
	if found && !s.scans.running {
		s.startScan(ctx)
	}
	return found
}

// inBackground does what may take its time in a goroutine of its own, and then what it
// returns in that of Run.
func (s *Supervisor) inBackground(ctx context.Context, work func(context.Context) func(context.Context)) {
	s.background.Go(func() {
		if then := work(ctx); then != nil && ctx.Err() == nil {
			s.enqueue(then)
		}
	})
}
