package supervisor

import (
	"context"
	"errors"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// handleProcessEvent handles an event of the tracker.
func (s *Supervisor) handleProcessEvent(ctx context.Context, e ProcessEvent) {
	t := s.byGroup[e.Group]
	switch {
	case e.Ended:
		s.handleTrackedEnd(ctx, e)
	case e.Executable == "":
		s.handleOtherFile(ctx, e.Process)
	case t != nil && e.Forked:
		s.scanAfterFork(t)
	case t != nil:
		s.examineEmulator(ctx, t, e.Tracked)
	default:
		s.scanDomains(ctx) // libvirt may have started it for a launcher
	}
}

// handleTrackedEnd handles the end of all threads of a process. It proves the end of a launcher. A
// VM process has ended only when its pidfd says so: until then it has its memory, files and
// devices.
func (s *Supervisor) handleTrackedEnd(ctx context.Context, e ProcessEvent) {
	for _, t := range s.ties { // each has few processes
		if t.VM(e.Process) != nil {
			s.watchVM(ctx, t, e.Process, e.How)
		}
		if t.LauncherProcess != nil && t.LauncherProcess.Same(e.Process) {
			s.handleLauncherEnd(t, e.How, e.At)
			if t.endUnseen { // the known time of the end now decides about each domain
				s.requestScan(ctx, t)
			}
		}
	}
}

// handleOtherFile handles a process that executes another file than an emulator: it is no VM
// process any more, nor a possible one. It lives, and a launcher process stays one.
func (s *Supervisor) handleOtherFile(ctx context.Context, p host.Process) {
	for _, t := range s.ties {
		if t.pending[p.ID()] {
			delete(t.pending, p.ID())
			s.requestPodScans(ctx, t.Launcher.Pod.UID)
		}
		if t.VM(p) == nil {
			continue
		}
		s.step(t, tie.VMEnded{Process: p, How: "it executes another file"})
		if t.LauncherProcess == nil || !t.LauncherProcess.Same(p) {
			s.dropHandle(t, p)
		}
		s.requestPodScans(ctx, t.Launcher.Pod.UID)
	}
}

// handleEnd handles the end of a process of a tie. how is its exit code or signal as text, empty if
// unknown.
func (s *Supervisor) handleEnd(ctx context.Context, t *managedTie, p host.Process, how string) {
	if t.VM(p) != nil {
		s.step(t, tie.VMEnded{Process: p, How: how})
	}
	if t.LauncherProcess != nil && t.LauncherProcess.Same(p) {
		s.handleLauncherEnd(t, how, 0)
	}
	if s.isCurrent(t) {
		s.dropHandle(t, p)
	}
	s.requestPodScans(ctx, t.Launcher.Pod.UID)
}

// handleLauncherEnd handles the end of the launcher process at the given time, 0 if the time is
// unknown. A later event of the tracker may have the time of an unobserved end.
func (s *Supervisor) handleLauncherEnd(t *managedTie, how string, at host.Boottime) {
	if t.LauncherGone != "" && (!t.endUnseen || at == 0) || !s.isCurrent(t) {
		return
	}
	proof := "its first process has ended"
	if how != "" {
		proof += ": " + how
	}
	ended := tie.LauncherEnded{Proof: proof, LastSeen: at}
	if t.endUnseen && at == 0 {
		ended.LastSeen = max(t.AliveAt, t.Since)
	}
	s.step(t, ended)
}

// examineEmulator reads the command line of a new emulator, and adds it as a VM process unless it
// is a probe.
func (s *Supervisor) examineEmulator(ctx context.Context, t *managedTie, p Tracked) {
	full := len(t.VMs)+len(t.examining) >= maxVMs
	if t.VM(p.Process) != nil || t.examining[p.ID()] || full {
		return
	}
	t.examining[p.ID()] = true
	cgroups, declared := s.cgroupsByGroup(), s.domainsDeclared()
	s.inBackground(ctx, func(ctx context.Context) func(context.Context) {
		args, err := s.readArguments(ctx, p.Process, argumentsReader{group: p.Group})
		hasLeft := declared && s.hasLeft(p, cgroups)
		return func(ctx context.Context) {
			delete(t.examining, p.ID())
			switch {
			case s.isProbe(p.Process, args), errors.Is(err, host.ErrGone):
				return
			case errors.Is(err, errNotReadYet):
				s.scanAfterFork(t)
				return
			case hasLeft: // it may run the domain of another launcher
				s.requestScan(ctx, t)
				return
			case err != nil:
				s.logger(t).Warn("an emulator counts as a VM, because the agent cannot read its "+
					"command line",
					"pid", p.PID, "error", err)
			}
			s.addVM(t, tie.VM{Process: p.Process, Executable: p.Executable})
		}
	})
}
