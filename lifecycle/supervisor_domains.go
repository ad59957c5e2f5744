package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// lookAtDomains has the domains looked at that launchers declare.
func (s *Supervisor) lookAtDomains(ctx context.Context) {
	if s.Domains == nil {
		return
	}
	for _, t := range s.ties {
		if t.Launcher.Domain != "" && t.OwnerGone == "" {
			s.want(ctx, t, 0) // one look is for all
			return
		}
	}
}

// bindDomain ties the emulator of a domain to the launcher that has declared it
// first. A launcher that has ended gets none: the domain may have been started
// since, and be another's.
func (s *Supervisor) bindDomain(d Domain, p Tracked, own string) {
	for _, t := range s.ties {
		if v := t.vm(p.Process); v != nil {
			if v.Domain == nil && d.is(t.Launcher.Domain) {
				v.Domain, v.OwnCgroup = &d, own // it was found by its tracking, before
			}
			return
		}
	}
	claimants := s.claimants(d)
	if len(claimants) == 0 {
		return
	}
	for _, other := range claimants[1:] {
		s.tellClaimed(other, claimants[0], d)
	}
	t := claimants[0]
	if t.Launcher.Group == 0 {
		return // its cgroup is not known yet
	}
	if err := s.Tracker.Bind(p.Process, t.Launcher.Group); errors.Is(err, ErrGone) {
		return
	} else if err != nil { // it is held on to all the same
		s.log(&t.Tie).Warn("the process of a domain cannot be tracked as the launcher's", "pid", p.PID, "error", err)
	}
	s.enter(t, VM{Process: p.Process, Executable: p.Executable, Domain: &d, OwnCgroup: own})
}

// claimants returns the launchers that declare a domain, the earliest first.
func (s *Supervisor) claimants(d Domain) []*tied {
	var all []*tied
	for _, t := range s.ties {
		if d.is(t.Launcher.Domain) && t.Owner != nil && t.OwnerGone == "" {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *tied) int {
		return cmp.Or(cmp.Compare(a.Owner.StartTime, b.Owner.StartTime), cmp.Compare(a.Launcher.Container.ID, b.Launcher.Container.ID))
	})
	return all
}

func (s *Supervisor) tellClaimed(t, first *tied, d Domain) {
	if t.claimTold {
		return
	}
	t.claimTold = true
	s.tell(t, Tell{
		Type: agentapi.Warning, Reason: agentapi.ReasonDomainClaimed,
		Message: "domain " + d.Name + " is bound to pod " + first.Launcher.Pod.Namespace + "/" + first.Launcher.Pod.Name +
			", which has declared it before",
	})
}

// is reports whether a launcher that declares this means the domain. What reads as a
// UUID is never taken for a name.
func (d Domain) is(declared string) bool {
	const plain, hyphened = 32, 36 // uuid.Parse knows other forms, which libvirt does not
	if id, err := uuid.Parse(declared); err == nil && (len(declared) == plain || len(declared) == hyphened) {
		own, err := uuid.Parse(d.UUID)
		return err == nil && id == own
	}
	return declared != "" && declared == d.Name
}

// ownCgroup returns the cgroup that libvirt has made for a domain alone.
func (s *Supervisor) ownCgroup(p Process) string {
	now, err := s.Processes.Identify(p.PID)
	if err != nil || !now.is(p) {
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
