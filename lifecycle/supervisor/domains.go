package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// assignDomain adds the emulator of a domain to its launcher as a VM process.
func (s *Supervisor) assignDomain(
	ctx context.Context, d tie.Domain, p Tracked, result *scanResult,
) {
	own := result.vmCgroups[p.ID()] // the cgroup of the domain alone
	holder := s.holderOf(p.Process)
	if holder != nil {
		v := holder.VM(p.Process)
		if v.Domain == nil && d.Matches(holder.Launcher.Domain) {
			v.Domain, v.OwnCgroup = &d, own // known from the tracker only, until now
		}
		if v.Domain != nil || !s.claimedElsewhere(holder, d) {
			return
		}
		s.reassign(holder, p.Process, d)
	}
	t, refused, late := s.launcherOf(d, p.Process)
	if late != nil && !s.isCurrent(late) && !p.Bound && s.byGroup[p.Group] != nil {
		late = nil // a present launcher started it
	}
	for _, claimant := range refused {
		s.reportClaimed(claimant, t, d)
	}
	gone := t == nil && result.ownerGone[p.ID()] && s.ownerIsGone(d)
	switch {
	case gone && (late == nil || late.Launcher.Pod.UID != d.Owner.UID):
		s.addOrphan(d, p, own)
	case late != nil:
		stops := gone || s.stopsLate(d)
		s.reportStartedLate(late, d, p, stops)
		if stops {
			t = late
		}
	case t == nil:
		if !s.addByGroup(d, p) {
			s.reportUnowned(d, p)
		}
	}
	if t == nil {
		return
	}
	s.revive(t)
	s.bindProcess(ctx, t, p.Process)
	s.addVM(t, tie.VM{Process: p.Process, Executable: p.Executable, Domain: &d, OwnCgroup: own})
}

// holderOf returns the tie with this VM process, nil if there is none.
func (s *Supervisor) holderOf(p host.Process) *managedTie {
	for _, t := range s.ties {
		if t.VM(p) != nil {
			return t
		}
	}
	return nil
}

// bindProcess adds a node-level VM process to the launcher's group in the tracker. Its handle does
// not depend on that.
func (s *Supervisor) bindProcess(ctx context.Context, t *managedTie, p host.Process) {
	group, log := t.Launcher.Group, s.logger(t)
	if group == 0 {
		return
	}
	s.inBackground(ctx, func(context.Context) func(context.Context) {
		if err := s.Tracker.Bind(p, group); err != nil && !errors.Is(err, host.ErrGone) {
			log.Warn("the agent cannot add a domain's process to the launcher's group",
				"pid", p.PID, "error", err)
		}
		return nil
	})
}

// claimants returns the live launchers that declare a domain, the earliest first.
func (s *Supervisor) claimants(d tie.Domain) []*managedTie {
	var all []*managedTie
	for _, t := range s.ties {
		if d.Matches(t.Launcher.Domain) && t.LauncherProcess != nil && t.LauncherGone == "" {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, compareStarts)
	return all
}

// compareStarts orders launchers by the start of their processes.
func compareStarts(a, b *managedTie) int {
	return cmp.Or(
		cmp.Compare(a.LauncherProcess.StartTime, b.LauncherProcess.StartTime),
		cmp.Compare(a.Launcher.Container.ID, b.Launcher.Container.ID))
}

// launcherOf returns the launcher of a domain's process. A live launcher with this domain comes
// first, and the earliest of several; refused has the others. Without one, see formerLauncherOf.
func (s *Supervisor) launcherOf(d tie.Domain, p host.Process) (
	launcher *managedTie, refused []*managedTie, late *managedTie,
) {
	if all := s.claimants(d); len(all) > 0 {
		return all[0], all[1:], nil
	}
	launcher, late = s.formerLauncherOf(d, p)
	return launcher, nil, late
}

// formerLauncherOf returns the ended launcher in whose life the process started, and the earliest
// of several. Otherwise it returns in late the last launcher that had ended before. The claim of
// another launcher that has not ended excludes both. An unobserved end waits for the runtime's
// list, which has all claims.
func (s *Supervisor) formerLauncherOf(d tie.Domain, p host.Process) (launcher, late *managedTie) {
	for t := range s.withFormer() {
		switch {
		case !d.Matches(t.Launcher.Domain), t.LauncherProcess == nil, t.LauncherGone == "":
		case t.endUnseen && !s.reconciled:
		case p.StartedBefore(host.Boottime(t.LauncherProcess.StartTime)),
			s.Registry.HasLiveClaimant(d.Matches, s.exemptPod(t)):
		case p.StartedBefore(t.LauncherGoneAt):
			if launcher == nil || compareStarts(t, launcher) < 0 {
				launcher = t
			}
		case t.othersUnknown: // an unknown launcher may have started it
		case late == nil || late.LauncherGoneAt < t.LauncherGoneAt:
			late = t
		}
	}
	if launcher != nil {
		return launcher, nil
	}
	return nil, late
}

// claimedElsewhere reports whether another known pod has declared the domain.
func (s *Supervisor) claimedElsewhere(t *managedTie, d tie.Domain) bool {
	_, ok := s.Registry.Claimant(d.Matches, s.exemptPod(t))
	return ok
}

// exemptPod returns the UID of the launcher's pod, which claims the domain for this launcher. A
// former launcher has none, because it yields to a new container of its own pod.
func (s *Supervisor) exemptPod(t *managedTie) string {
	if !s.isCurrent(t) {
		return ""
	}
	return t.Launcher.Pod.UID
}

// reportClaimed reports once that an earlier launcher has the domain.
func (s *Supervisor) reportClaimed(t, first *managedTie, d tie.Domain) {
	if t.claimReported {
		return
	}
	t.claimReported = true
	pod := first.Launcher.Pod
	s.report(t, tie.Report{
		Type: agentapi.Warning, Reason: agentapi.ReasonDomainClaimed,
		Message: fmt.Sprintf("domain %s belongs to pod %s/%s, which has declared it first",
			d.Name, pod.Namespace, pod.Name),
	})
}

// stopsLate reports whether the agent stops a domain that started after the launcher's end. The
// start gate decides before libvirt starts a process, so the launcher can end in between.
func (s *Supervisor) stopsLate(d tie.Domain) bool {
	return s.terms.StopUnattended || s.RequiresOwner != nil && s.RequiresOwner(d.Name)
}

// reportStartedLate reports once a domain's process that started after the end of its launcher.
func (s *Supervisor) reportStartedLate(t *managedTie, d tie.Domain, p Tracked, stops bool) {
	if t.lateReported[p.ID()] {
		return
	}
	clear(t.lateReported) // a domain has one process at a time
	t.lateReported[p.ID()] = true
	when, then := "had ended", "leaves it alone"
	if t.endUnseen {
		when = "was last seen alive"
	}
	if stops {
		then = "stops it"
	}
	v := tie.VM{Executable: p.Executable, Domain: &d}
	s.report(t, tie.Report{
		Type: agentapi.Warning, Reason: agentapi.ReasonVMUnattended, PID: p.PID,
		Message: fmt.Sprintf("%s is unattended: it started after its launcher %s, and the agent %s",
			v.Describe(), when, then),
	})
}

// vmCgroup returns the cgroup that libvirt has made for a domain alone, empty if there is none.
func (s *Supervisor) vmCgroup(p host.Process) string {
	now, err := s.Processes.Identify(p.PID)
	if err != nil || !now.Same(p) {
		return ""
	}
	return domainCgroup(now.Cgroup)
}

// domainCgroup returns the ancestor of an emulator's cgroup with the name of a domain, empty if
// there is none. Its name is machine-qemu\x2dID\x2dNAME.scope with systemd, and
// qemu-ID-NAME.libvirt-qemu without.
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
