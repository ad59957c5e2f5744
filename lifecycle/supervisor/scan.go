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

	// lingerPeriod is how long a launcher that declares a domain is looked after
	// when nothing is left of it: libvirt notes the pid of what it starts a moment
	// after it has.
	lingerPeriod = 10 * time.Second

	// probeAge is how old a probe can become. What emulates no machine for longer
	// is looked after like a VM, whatever it says.
	probeAge = 30 * time.Second
)

// looks are those that are wanted. One at a time is under way, for all launchers
// that wanted one before it began.
type looks struct {
	wanted map[*tied]uint64 // the ID of the [tie.RequestScan] that asked for it, 0 for none
	busy   bool
}

// want asks for a look at what VM processes a launcher has.
func (s *Supervisor) want(ctx context.Context, t *tied, id uint64) {
	s.looks.wanted[t] = max(s.looks.wanted[t], id)
	if !s.looks.busy {
		s.look(ctx)
	}
}

// look takes one look for all launchers that want one.
func (s *Supervisor) look(ctx context.Context) {
	wanted := s.looks.wanted
	s.looks.wanted, s.looks.busy = map[*tied]uint64{}, true
	q := question{known: s.known(), full: s.full(), places: s.places(wanted), declared: s.declared()}
	s.aside(ctx, func(ctx context.Context) func(context.Context) {
		v, err := s.see(ctx, q)
		return func(ctx context.Context) {
			s.looks.busy = false
			s.looked(ctx, wanted, v, err)
			if len(s.looks.wanted) > 0 && !s.looks.busy {
				s.look(ctx)
			}
		}
	})
}

// known returns the VM processes that are held on to.
func (s *Supervisor) known() map[host.Process]bool {
	all := map[host.Process]bool{}
	for _, t := range s.ties {
		for _, v := range t.VMs {
			all[v.Process.ID()] = true
		}
	}
	return all
}

// full returns the groups that have as many VM processes as are looked after.
func (s *Supervisor) full() map[uint64]bool {
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
func (s *Supervisor) places(wanted map[*tied]uint64) map[string]tie.Launcher {
	all := map[string]tie.Launcher{}
	for id, t := range s.ties {
		if _, ok := wanted[t]; ok || t.Launcher.Group == 0 {
			all[id] = t.Launcher
		}
	}
	return all
}

// declared reports whether any launcher declares a domain.
func (s *Supervisor) declared() bool {
	for _, t := range s.ties {
		if t.Launcher.Domain != "" {
			return true
		}
	}
	return false
}

// looked takes what a look has seen.
func (s *Supervisor) looked(ctx context.Context, wanted map[*tied]uint64, v *view, err error) {
	if err != nil {
		// No answer is no proof: the next round looks again.
		s.Logger.Warn("VM processes cannot be looked for", "error", err)
		return
	}
	for _, p := range v.emulators {
		t := s.seenOf(v, p.Process, p.Group)
		if d, ok := v.domains[p.ID()]; ok {
			s.bindDomain(ctx, d, p, v.own[p.ID()])
		} else if t != nil && v.pending[p.ID()] {
			s.lookSoon(t)
		} else if t != nil && !v.probes[p.ID()] {
			s.enter(t, tie.VM{Process: p.Process, Executable: p.Executable})
		}
	}
	for t, id := range wanted {
		s.conclude(ctx, t, id, v)
	}
}

// seenOf returns the launcher that a process belongs to, by its group or, where the
// launcher has none, its place.
func (s *Supervisor) seenOf(v *view, p host.Process, group uint64) *tied {
	if t := s.byGroup[group]; t != nil {
		return t
	}
	return s.ties[v.inside[p.ID()]]
}

// conclude takes what a look means for a launcher of which it has shown nothing more.
func (s *Supervisor) conclude(ctx context.Context, t *tied, id uint64, v *view) {
	if s.current(t) {
		s.checkCgroup(t)
	}
	if s.current(t) && id != 0 && s.conclusive(t, v) {
		s.step(t, tie.Scanned{Scan: id})
	}
	if !s.current(t) || !t.Over() || v.left(t.Launcher) || !s.domainsClear(t, v) {
		return
	}
	if wait := t.lingers.Sub(s.Clock.Now()); wait > 0 && t.Launcher.Domain != "" {
		s.lookAfter(t, wait)
		return
	}
	s.drop(ctx, t)
}

// left reports whether a launcher has any process left, or may have.
func (v *view) left(l tie.Launcher) bool {
	id := l.Container.ID
	return l.Group != 0 && v.groups[l.Group] || v.unseen[id] || v.crowded[id]
}

// conclusive reports whether a look shows that nothing of a launcher is left, if it
// has shown nothing of it.
func (s *Supervisor) conclusive(t *tied, v *view) bool {
	nowhere := t.Launcher.Group == 0 && t.Launcher.Cgroup == "" && t.OwnerGone == ""
	if nowhere || v.unseen[t.Launcher.Container.ID] || !s.domainsClear(t, v) {
		return false
	}
	for _, p := range v.emulators {
		left := s.seenOf(v, p.Process, p.Group) == t && !v.probes[p.ID()]
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

// domainsClear reports whether no process can be a VM of the launcher that libvirt has
// started, or is about to start, and that is not held on to.
func (s *Supervisor) domainsClear(t *tied, v *view) bool {
	if t.Launcher.Domain == "" {
		return true
	}
	waits := t.blind || t.restored && t.OwnerGone != "" && !s.Terms.ProofOnly
	if v.domainsUnknown || waits && !s.reconciled {
		return false
	}
	known := s.known()
	for p, d := range v.domains {
		if owner, _, _ := s.ownerOf(d, p); owner == t && !known[p] {
			return false // it could not be held on to
		}
	}
	return !slices.ContainsFunc(v.unclear, func(c claim) bool {
		owner, _, _ := s.ownerOf(c.domain, c.process)
		return owner == t
	})
}

// enter adds a VM process that is held on to. One that was there before this
// supervisor has not been seen to start, and is not judged by it.
func (s *Supervisor) enter(t *tied, v tie.VM) {
	if !s.current(t) || t.VM(v.Process) != nil || v.Domain == nil && len(t.VMs) >= maxVMs {
		return
	}
	s.readSigns(t) // its launcher may have given the first sign just before
	_, err := s.hold(t, v.Process)
	switch {
	case err == nil && v.StartedBefore(t.here):
		s.step(t, tie.Scanned{Found: []tie.VM{v}})
	case err == nil:
		s.step(t, tie.VMStarted{VM: v})
	case !errors.Is(err, host.ErrGone):
		s.log(&t.Tie).Warn("a VM process cannot be watched; it is tried again", "pid", v.PID, "error", err)
	}
}

// current reports whether the tie has not been dropped meanwhile.
func (s *Supervisor) current(t *tied) bool { return s.ties[t.Launcher.Container.ID] == t }

// checkCgroup takes the end of a container's cgroup for that of its owner, where that
// is not known. A process that lives is the better witness: it may have moved.
func (s *Supervisor) checkCgroup(t *tied) {
	if t.OwnerGone != "" || t.Owner != nil || t.Launcher.Cgroup == "" {
		return
	}
	if there, err := s.Processes.Exists(t.Launcher.Cgroup); err == nil && !there {
		s.step(t, tie.OwnerEnded{Proof: "its cgroup is gone"})
	}
}

// lookAtAll finds what nobody has told of.
func (s *Supervisor) lookAtAll(ctx context.Context) {
	for _, t := range maps.Clone(s.ties) {
		l, known := s.Registry.Find(t.Launcher.Container.ID)
		switch {
		case known && t.Owner == nil && t.OwnerGone == "":
			s.started(ctx, l)
		case !known && t.Owner == nil && t.Launcher.Group == 0 && (!t.restored || s.reconciled):
			s.drop(ctx, t) // it was never started, and the runtime has removed it
		default:
			s.trackAgain(ctx, t)
			s.holdAgain(ctx, t)
		}
		if s.current(t) {
			s.want(ctx, t, t.PendingScan())
		}
	}
}

// findLost makes good what was lost on the way: processes that the tracker does not
// know, and what nobody told of.
func (s *Supervisor) findLost(ctx context.Context) {
	if s.rescan != rescanNone {
		s.rescan = rescanAgain
		return
	}
	s.rescan = rescanBusy
	s.aside(ctx, func(context.Context) func(context.Context) {
		err := s.Tracker.Rescan()
		return func(ctx context.Context) {
			again := s.rescan == rescanAgain
			s.rescan = rescanNone
			if err != nil {
				s.Logger.Warn("processes cannot be looked for", "error", err)
			}
			s.readAllSigns()
			s.lookAtAll(ctx)
			if again {
				s.findLost(ctx)
			}
		}
	})
}

// rescan says whether the tracker is looking for what it does not know.
type rescan int

const (
	rescanNone rescan = iota
	rescanBusy
	rescanAgain // one is under way, and wanted once more
)

// rescanSoon has the tracker look for what it does not know in a while, once for all
// who want it: it looks at more than it need as long as it has not.
func (s *Supervisor) rescanSoon() {
	if s.rescanDue {
		return
	}
	s.rescanDue = true
	time.AfterFunc(rescanDelay, func() {
		s.put(func(ctx context.Context) {
			s.rescanDue = false
			s.findLost(ctx)
		})
	})
}

// rescanDelay is how long a launcher may take to start before it is scanned.
const rescanDelay = 2 * time.Second
