package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
)

// maxVMs bounds the VM processes that are known of one launcher: it could start as
// many as it likes. The others end with its container.
const maxVMs = 64

// looks are those that are wanted. One at a time is under way, for all launchers
// that wanted one before it began.
type looks struct {
	wanted map[*tied]uint64 // the ID of the [Look] that asked for it, 0 for none
	busy   bool
}

// view is what a look sees.
type view struct {
	tracked []Tracked // emulators alone
	probes  map[Process]bool
	domains map[Process]Domain
	own     map[Process]string // cgroups of domains
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
	known, declared := s.known(), s.declared()
	s.aside(ctx, func(ctx context.Context) func(context.Context) {
		v, err := s.see(ctx, known, declared)
		return func(ctx context.Context) {
			s.looked(wanted, v, err)
			s.looks.busy = false
			if len(s.looks.wanted) > 0 {
				s.look(ctx)
			}
		}
	})
}

// known returns the VM processes that are held on to.
func (s *Supervisor) known() map[Process]bool {
	all := map[Process]bool{}
	for _, t := range s.ties {
		for _, v := range t.VMs {
			all[v.Process.name()] = true
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

// see asks the tracker and libvirt. It does not know the ties.
func (s *Supervisor) see(ctx context.Context, known map[Process]bool, declared bool) (view, error) {
	v := view{probes: map[Process]bool{}, domains: map[Process]Domain{}, own: map[Process]string{}}
	var running []Domain
	if declared && s.Domains != nil {
		var err error // listed first: what runs then is tracked already
		if running, err = s.Domains.Running(); err != nil {
			s.Logger.Warn("not all domains of the node's libvirt can be listed", "error", err)
		}
	}
	all, err := s.Tracker.Snapshot()
	if err != nil {
		return v, fmt.Errorf("list the processes that are tracked: %w", err)
	}
	for _, p := range all {
		if p.Executable == "" {
			continue
		}
		v.tracked = append(v.tracked, p)
		if d, ok := s.domainOf(ctx, p, running); ok {
			v.domains[p.name()] = d
			v.own[p.name()] = s.ownCgroup(p.Process)
		} else if p.Group != 0 && !known[p.name()] {
			args, err := s.arguments(ctx, p.Process)
			v.probes[p.name()] = withoutMachine(args) || errors.Is(err, ErrGone)
		}
	}
	return v, nil
}

// domainOf returns the domain that a process runs: libvirt's note has its pid, and
// its command line is of libvirt's making. The note alone can be of a process that
// had the pid before. A process of a pod is none of the node's libvirt.
func (s *Supervisor) domainOf(ctx context.Context, p Tracked, running []Domain) (Domain, bool) {
	for _, d := range running {
		if d.PID != p.PID || p.Group != 0 && !p.Bound {
			continue
		}
		args, err := s.arguments(ctx, p.Process)
		return d, err == nil && s.Domains.RunBy(d, args)
	}
	return Domain{}, false
}

// looked takes what a look has seen.
func (s *Supervisor) looked(wanted map[*tied]uint64, v view, err error) {
	if err != nil {
		// No answer is no proof: the next round looks again.
		s.Logger.Warn("VM processes cannot be looked for", "error", err)
		return
	}
	for _, p := range v.tracked {
		if d, ok := v.domains[p.name()]; ok {
			s.bindDomain(d, p, v.own[p.name()])
			continue
		}
		if t := s.byGroup[p.Group]; t != nil && !v.probes[p.name()] {
			s.enter(t, VM{Process: p.Process, Executable: p.Executable})
		}
	}
	for t, id := range wanted {
		if s.current(t) {
			s.checkCgroup(t)
		}
		if s.current(t) && id != 0 {
			s.step(t, Looked{Look: id})
		}
	}
}

// enter adds a VM process that is held on to. One that was there before this
// supervisor has not been seen to start, and is not judged by it.
func (s *Supervisor) enter(t *tied, v VM) {
	if !s.current(t) || t.vm(v.Process) != nil || len(t.VMs) >= maxVMs {
		return
	}
	s.readSigns(t) // its launcher may have given the first sign just before
	err := s.hold(t, v.Process)
	switch {
	case err == nil && v.startedBefore(t.here):
		s.step(t, Looked{Found: []VM{v}})
	case err == nil:
		s.step(t, VMStarted{VM: v})
	case !errors.Is(err, ErrGone):
		s.log(&t.Tie).Warn("a VM process cannot be watched; it is tried again", "pid", v.PID, "error", err)
	}
}

// startedBefore reports whether the process surely started before that moment: its
// start time is known in ticks.
func (p Process) startedBefore(b Boottime) bool {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on all architectures that Linux runs VMs on
	return Boottime(p.StartTime+1)*Boottime(tick) <= b
}

// current reports whether the tie has not been dropped meanwhile.
func (s *Supervisor) current(t *tied) bool { return s.ties[t.Launcher.Container.ID] == t }

// checkCgroup takes the end of a container's cgroup for that of its owner. The
// owner itself tells sooner, where it is known.
func (s *Supervisor) checkCgroup(t *tied) {
	if t.OwnerGone != "" || t.Launcher.Cgroup == "" {
		return
	}
	if there, err := s.Processes.Exists(t.Launcher.Cgroup); err == nil && !there {
		s.step(t, OwnerEnded{Proof: "its cgroup is gone"})
	}
}

// lookAtAll finds what nobody has told of.
func (s *Supervisor) lookAtAll(ctx context.Context) {
	for _, t := range maps.Clone(s.ties) {
		if t.Owner == nil && t.OwnerGone == "" {
			if l, ok := s.Registry.Find(t.Launcher.Container.ID); ok {
				s.started(ctx, l)
			}
		}
		if s.current(t) {
			s.want(ctx, t, t.wanted())
		}
	}
}

// wanted returns the look that is asked for and was not taken yet.
func (t *Tie) wanted() uint64 {
	if t.looking {
		return t.look
	}
	return 0
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
