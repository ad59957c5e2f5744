package supervisor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

const (
	// maxVMs bounds the VM processes of the pod that are known of one launcher: it
	// could start as many as it likes. A launcher that has more is not over.
	maxVMs = 64

	// keepPeriod is how long a launcher that declares a domain is looked after
	// when nothing is left of it: libvirt notes the pid of what it starts a moment
	// after it has.
	keepPeriod = 10 * time.Second

	// maxProbeAge is how old a probe can become. What emulates no machine for longer
	// is looked after like a VM, whatever it says.
	maxProbeAge = 30 * time.Second
)

// scanQueue are those that are wanted. One at a time is under way, for all launchers
// that wanted one before it began.
type scanQueue struct {
	requested map[*managedTie]uint64 // the ID of the [tie.RequestScan] that asked for it, 0 for none
	running   bool
}

// requestScan asks for a look at what VM processes a launcher has.
func (s *Supervisor) requestScan(ctx context.Context, t *managedTie, id uint64) {
	s.scans.requested[t] = max(s.scans.requested[t], id)
	if !s.scans.running {
		s.startScan(ctx)
	}
}

// startScan takes one look for all launchers that want one.
func (s *Supervisor) startScan(ctx context.Context) {
	wanted := s.scans.requested
	s.scans.requested, s.scans.running = map[*managedTie]uint64{}, true
	q := scanRequest{known: s.knownVMs(), full: s.fullGroups(), launchers: s.launchersToRead(wanted), domainsDeclared: s.domainsDeclared()}
	s.inBackground(ctx, func(ctx context.Context) func(context.Context) {
		v, err := s.scan(ctx, q)
		return func(ctx context.Context) {
			s.scans.running = false
			s.applyScan(ctx, wanted, v, err)
			if len(s.scans.requested) > 0 && !s.scans.running {
				s.startScan(ctx)
			}
		}
	})
}

// knownVMs returns the VM processes that are held on to.
func (s *Supervisor) knownVMs() map[host.Process]bool {
	all := map[host.Process]bool{}
	for _, t := range s.ties {
		for _, v := range t.VMs {
			all[v.Process.ID()] = true
		}
	}
	return all
}

// fullGroups returns the groups that have as many VM processes as are looked after.
func (s *Supervisor) fullGroups() map[uint64]bool {
	all := map[uint64]bool{}
	for group, t := range s.byGroup {
		if len(t.VMs) >= maxVMs {
			all[group] = true
		}
	}
	return all
}

// places returns the launchers that want a look, and those that have no group: they are
// told of nothing.
func (s *Supervisor) launchersToRead(wanted map[*managedTie]uint64) map[string]tie.Launcher {
	all := map[string]tie.Launcher{}
	for id, t := range s.ties {
		if _, ok := wanted[t]; ok || t.Launcher.Group == 0 {
			all[id] = t.Launcher
		}
	}
	return all
}

// domainsDeclared reports whether any launcher declares a domain.
func (s *Supervisor) domainsDeclared() bool {
	for _, t := range s.ties {
		if t.Launcher.Domain != "" {
			return true
		}
	}
	return false
}

// applyScan takes what a look has seen.
func (s *Supervisor) applyScan(ctx context.Context, wanted map[*managedTie]uint64, v *scanResult, err error) {
	if err != nil {
		// No answer is no proof: the next round looks again.
		s.Logger.Warn("VM processes cannot be looked for", "error", err)
		return
	}
	for _, p := range v.emulators {
		t := s.tieOf(v, p.Process, p.Group)
		if d, ok := v.domains[p.ID()]; ok {
			s.assignDomain(ctx, d, p, v.vmCgroups[p.ID()])
		} else if t != nil && v.unread[p.ID()] {
			s.scanAfterFork(t)
		} else if t != nil && !v.probes[p.ID()] {
			s.addVM(t, tie.VM{Process: p.Process, Executable: p.Executable})
		}
	}
	for t, id := range wanted {
		s.concludeScan(ctx, t, id, v)
	}
}

// tieOf returns the launcher that a process belongs to, by its group or, where the
// launcher has none, its place.
func (s *Supervisor) tieOf(v *scanResult, p host.Process, group uint64) *managedTie {
	if t := s.byGroup[group]; t != nil {
		return t
	}
	return s.ties[v.containerOf[p.ID()]]
}

// concludeScan takes what a look means for a launcher of which it has shown nothing more.
func (s *Supervisor) concludeScan(ctx context.Context, t *managedTie, id uint64, v *scanResult) {
	if s.isCurrent(t) {
		s.checkCgroup(t)
	}
	if s.isCurrent(t) && id != 0 && s.nothingLeft(t, v) {
		s.step(t, tie.Scanned{ID: id})
	}
	if !s.isCurrent(t) || !t.Over() || v.mayHaveProcesses(t.Launcher) || !s.domainsAccountedFor(t, v) {
		return
	}
	if wait := t.keepUntil.Sub(s.Clock.Now()); wait > 0 && t.Launcher.Domain != "" {
		s.scanBeforeDrop(t, wait)
		return
	}
	s.dropTie(ctx, t)
}

// left reports whether a launcher has any process left, or may have.
func (v *scanResult) mayHaveProcesses(l tie.Launcher) bool {
	id := l.Container.ID
	return l.Group != 0 && v.groups[l.Group] || v.untracked[id] || v.occupied[id]
}

// nothingLeft reports whether a look shows that nothing of a launcher is left, if it
// has shown nothing of it.
func (s *Supervisor) nothingLeft(t *managedTie, v *scanResult) bool {
	nowhere := t.Launcher.Group == 0 && t.Launcher.Cgroup == "" && t.LauncherGone == ""
	if nowhere || v.untracked[t.Launcher.Container.ID] || !s.domainsAccountedFor(t, v) {
		return false
	}
	for _, p := range v.emulators {
		left := s.tieOf(v, p.Process, p.Group) == t && !v.probes[p.ID()]
		if left && t.VM(p.Process) == nil && t.handles[p.ID()] == nil {
			return false // there was no room for it, or it could not be held on to
		}
	}
	for _, other := range s.ties { // the pod has one file for all its containers
		if other != t && t.StopRequested && other.Launcher.Pod.UID == t.Launcher.Pod.UID && len(other.VMs) > 0 {
			return false
		}
	}
	return true
}

// domainsAccountedFor reports whether no process can be a VM of the launcher that libvirt has
// started, or is about to start, and that is not held on to.
func (s *Supervisor) domainsAccountedFor(t *managedTie, v *scanResult) bool {
	if t.Launcher.Domain == "" {
		return true
	}
	waits := t.endUnseen || t.restored && t.LauncherGone != "" && !s.Terms.ProofOnly
	if v.domainsUnknown || waits && !s.reconciled {
		return false
	}
	known := s.knownVMs()
	for p, d := range v.domains {
		if owner, _, _ := s.launcherOf(d, p); owner == t && !known[p] {
			return false // it could not be held on to
		}
	}
	return !slices.ContainsFunc(v.unclear, func(c domainProcess) bool {
		owner, _, _ := s.launcherOf(c.domain, c.process)
		return owner == t
	})
}

// addVM adds a VM process that is held on to. One that was there before this
// supervisor has not been seen to start, and is not judged by it.
func (s *Supervisor) addVM(t *managedTie, v tie.VM) {
	if !s.isCurrent(t) || t.VM(v.Process) != nil || v.Domain == nil && len(t.VMs) >= maxVMs {
		return
	}
	s.readPodDir(t) // its launcher may have given the first sign just before
	_, err := s.openHandle(t, v.Process)
	switch {
	case err == nil && v.StartedBefore(t.supervisedSince):
		s.step(t, tie.Scanned{Found: []tie.VM{v}})
	case err == nil:
		s.step(t, tie.VMStarted{VM: v})
	case !errors.Is(err, host.ErrGone):
		s.logger(&t.Tie).Warn("a VM process cannot be watched; it is tried again", "pid", v.PID, "error", err)
	}
}

// isCurrent reports whether the tie has not been dropped meanwhile.
func (s *Supervisor) isCurrent(t *managedTie) bool { return s.ties[t.Launcher.Container.ID] == t }

// checkCgroup takes the end of a container's cgroup for that of its owner, where that
// is not known. A process that lives is the better witness: it may have moved.
func (s *Supervisor) checkCgroup(t *managedTie) {
	if t.LauncherGone != "" || t.LauncherProcess != nil || t.Launcher.Cgroup == "" {
		return
	}
	if there, err := s.Processes.Exists(t.Launcher.Cgroup); err == nil && !there {
		s.step(t, tie.LauncherEnded{Proof: "its cgroup is gone"})
	}
}

// scanAll finds what nobody has told of.
func (s *Supervisor) scanAll(ctx context.Context) {
	for _, t := range maps.Clone(s.ties) {
		l, known := s.Registry.Find(t.Launcher.Container.ID)
		switch {
		case known && t.LauncherProcess == nil && t.LauncherGone == "":
			s.setLauncherProcess(ctx, l)
		case !known && t.LauncherProcess == nil && t.Launcher.Group == 0 && (!t.restored || s.reconciled):
			s.dropTie(ctx, t) // it was never started, and the runtime has removed it
		default:
			s.retryTracking(ctx, t)
			s.reopenHandles(ctx, t)
		}
		if s.isCurrent(t) {
			s.requestScan(ctx, t, t.PendingScan())
		}
	}
}

// resync makes good what was lost on the way: processes that the tracker does not
// know, and what nobody told of.
func (s *Supervisor) resync(ctx context.Context) {
	if s.resyncing != resyncIdle {
		s.resyncing = resyncAgain
		return
	}
	s.resyncing = resyncRunning
	s.inBackground(ctx, func(context.Context) func(context.Context) {
		err := s.Tracker.Rescan()
		return func(ctx context.Context) {
			again := s.resyncing == resyncAgain
			s.resyncing = resyncIdle
			if err != nil {
				s.Logger.Warn("processes cannot be looked for", "error", err)
			}
			s.readAllPodDirs()
			s.scanAll(ctx)
			if again {
				s.resync(ctx)
			}
		}
	})
}

// resyncState says whether the tracker is looking for what it does not know.
type resyncState int

const (
	resyncIdle resyncState = iota
	resyncRunning
	resyncAgain // one is under way, and wanted once more
)

// resyncSoon has the tracker look for what it does not know in a while, once for all
// who want it: it looks at more than it need as long as it has not.
func (s *Supervisor) resyncSoon() {
	if s.resyncDue {
		return
	}
	s.resyncDue = true
	time.AfterFunc(resyncDelay, func() {
		s.enqueue(func(ctx context.Context) {
			s.resyncDue = false
			s.resync(ctx)
		})
	})
}

// resyncDelay is how long a launcher may take to start before it is scanned.
const resyncDelay = 2 * time.Second
