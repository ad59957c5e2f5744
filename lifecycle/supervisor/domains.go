package supervisor

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// assignDomain ties the emulator of a domain to the launcher that has declared it first.
func (s *Supervisor) assignDomain(ctx context.Context, d tie.Domain, p Tracked, own string) {
	for _, t := range s.ties {
		if v := t.VM(p.Process); v != nil {
			if v.Domain == nil && d.Matches(t.Launcher.Domain) {
				v.Domain, v.OwnCgroup = &d, own // it was found by its tracking, before
			}
			return
		}
	}
	t, refused, late := s.launcherOf(d, p.Process)
	for _, claimant := range refused {
		s.reportClaimed(claimant, t, d)
	}
	if late != nil {
		s.reportStartedLate(late, d, p)
		if late.stopsLate() {
			t = late
		}
	}
	if t == nil {
		return
	}
	s.bindProcess(ctx, t, p.Process)
	s.addVM(t, tie.VM{Process: p.Process, Executable: p.Executable, Domain: &d, OwnCgroup: own})
}

// bindProcess has a process that lives elsewhere, and its children, tracked as the launcher's,
// if the launcher is. It is held on to without that.
func (s *Supervisor) bindProcess(ctx context.Context, t *managedTie, p host.Process) {
	group, log := t.Launcher.Group, s.logger(&t.Tie)
	if group == 0 {
		return
	}
	s.inBackground(ctx, func(context.Context) func(context.Context) {
		if err := s.Tracker.Bind(p, group); err != nil && !errors.Is(err, host.ErrGone) {
			log.Warn("the process of a domain cannot be tracked as the launcher's", "pid", p.PID, "error", err)
		}
		return nil
	})
}

// claimants returns the launchers that live and declare a domain, the earliest first.
func (s *Supervisor) claimants(d tie.Domain) []*managedTie {
	var all []*managedTie
	for _, t := range s.ties {
		if d.Matches(t.Launcher.Domain) && t.LauncherProcess != nil && t.LauncherGone == "" {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *managedTie) int {
		return cmp.Or(cmp.Compare(a.LauncherProcess.StartTime, b.LauncherProcess.StartTime), cmp.Compare(a.Launcher.Container.ID, b.Launcher.Container.ID))
	})
	return all
}

// launcherOf returns the launcher that a domain's process belongs to: the first that lives
// and declares the domain, before those that are refused, or the one that has left it
// behind. late is one that has ended before the process was started.
func (s *Supervisor) launcherOf(d tie.Domain, p host.Process) (owner *managedTie, refused []*managedTie, late *managedTie) {
	if all := s.claimants(d); len(all) > 0 {
		return all[0], all[1:], nil
	}
	owner, late = s.formerLauncherOf(d, p)
	return owner, nil, late
}

// formerLauncherOf returns the launcher that has ended, and has left a domain's process behind
// that nobody else declares: it was started while the launcher lived. Otherwise it
// returns the last one that had ended when it was. Where nobody saw the launcher end,
// that is only known once the runtime has said who else is there.
func (s *Supervisor) formerLauncherOf(d tie.Domain, p host.Process) (owner, late *managedTie) {
	for _, t := range s.ties {
		switch {
		case !d.Matches(t.Launcher.Domain), t.LauncherProcess == nil, t.LauncherGone == "":
		case t.endUnseen && !s.reconciled:
		case p.StartTime < t.LauncherProcess.StartTime, s.claimedElsewhere(t, d):
		case p.StartedBefore(t.LauncherGoneAt):
			return t, nil
		case t.othersUnknown: // one that declares it may have started it
		case late == nil || late.LauncherGoneAt < t.LauncherGoneAt:
			late = t
		}
	}
	return nil, late
}

// claimedElsewhere reports whether another pod that the runtime knows has declared the
// domain.
func (s *Supervisor) claimedElsewhere(t *managedTie, d tie.Domain) bool {
	_, ok := s.Registry.Claimant(d.Matches, t.Launcher.Pod.UID)
	return ok
}

func (s *Supervisor) reportClaimed(t, first *managedTie, d tie.Domain) {
	if t.claimReported {
		return
	}
	t.claimReported = true
	s.report(t, tie.Report{
		Type: agentapi.Warning, Reason: agentapi.ReasonDomainClaimed,
		Message: "domain " + d.Name + " is bound to pod " + first.Launcher.Pod.Namespace + "/" + first.Launcher.Pod.Name +
			", which has declared it before",
	})
}

// stopsLate reports whether a domain that starts after the launcher has ended, or was last
// seen, is stopped.
func (t *managedTie) stopsLate() bool { return t.Terms.StopUnattended }

// reportStartedLate tells once of a domain's process that nobody is known to answer for.
func (s *Supervisor) reportStartedLate(t *managedTie, d tie.Domain, p Tracked) {
	if t.lateReported[p.ID()] {
		return
	}
	t.lateReported[p.ID()] = true
	when := "had ended"
	if t.endUnseen {
		when = "was last seen"
	}
	then := "is left alone"
	if t.stopsLate() {
		then = "is stopped"
	}
	v := tie.VM{Executable: p.Executable, Domain: &d}
	s.report(t, tie.Report{
		Type: agentapi.Warning, Reason: agentapi.ReasonVMUnattended, PID: p.PID,
		Message: v.Describe() + " is unattended: it started after its launcher " + when + ", and " + then,
	})
}

// vmCgroup returns the cgroup that libvirt has made for a domain alone.
func (s *Supervisor) vmCgroup(p host.Process) string {
	now, err := s.Processes.Identify(p.PID)
	if err != nil || !now.Same(p) {
		return ""
	}
	return domainCgroup(now.Cgroup)
}

// domainCgroup returns the ancestor that libvirt names after a domain:
// machine-qemu\x2dID\x2dNAME.scope with systemd, qemu-ID-NAME.libvirt-qemu without.
// The emulator itself is below. Empty: there is none.
func domainCgroup(cgroup string) string {
	for at := path.Clean("/" + cgroup); at != "/"; at = path.Dir(at) {
		name := path.Base(at)
		scope := strings.HasPrefix(name, `machine-qemu\x2d`) && strings.HasSuffix(name, ".scope")
		plain := strings.HasPrefix(name, "qemu-") && strings.HasSuffix(name, ".libvirt-qemu")
		if scope || plain {
			return at
		}
	}
	return ""
}
