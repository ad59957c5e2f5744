package supervisor

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/mooring-vm/mooring/api/vmfile"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// explainTimeout bounds the wait for libvirt's reason of an end.
const explainTimeout = 15 * time.Second

// explainEnd asks libvirt in the background for the reason of a domain's end. The fence does not
// need the reason.
func (s *Supervisor) explainEnd(t *managedTie, end tie.DomainEnd) {
	if s.Terms.ProofOnly {
		return
	}
	log := s.logger(t).With("domain", end.Domain.Name)
	s.enqueue(func(ctx context.Context) {
		s.inBackground(ctx, func(ctx context.Context) func(context.Context) {
			reason, err := s.whyEnded(ctx, end)
			if ctx.Err() != nil {
				return nil // the next agent asks again
			}
			if err != nil {
				log.Warn("libvirt gives no reason for the end of a domain", "error", err)
				reason = vmfile.Unknown
			}
			return func(context.Context) {
				if s.isCurrent(t) {
					s.step(t, tie.EndExplained{Process: end.Process, Reason: reason})
				}
			}
		})
	})
}

func (s *Supervisor) whyEnded(ctx context.Context, end tie.DomainEnd) (vmfile.Reason, error) {
	if s.Domains == nil {
		return "", errNoDomains
	}
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	return s.Domains.WhyEnded(ctx, end.Domain, host.Boottime(end.StartTime))
}

// publishDomain writes a changed state of the launcher's node-level VM into the pod's directory.
// mooring-hook run waits for it there. The directory outlives the launcher, and after the
// launcher's end it may belong to the next one.
func (s *Supervisor) publishDomain(t *managedTie) {
	now := t.DomainState()
	declared := t.Launcher.Domain != "" && t.LauncherGone == "" && !s.Terms.ProofOnly
	if !declared || now == t.publishedVM || s.PodDirs == nil {
		return
	}
	if s.writeDomain(t.Launcher.Pod.UID, now) {
		t.publishedVM = now
	}
}

// clearDomain removes the state of an earlier launcher, before the container of a new one starts.
func (s *Supervisor) clearDomain(l registry.Launcher) {
	if l.Domain != "" && s.PodDirs != nil {
		s.writeDomain(l.Pod.UID, vmfile.VM{State: vmfile.Absent})
	}
}

// writeDomain reports whether the pod's directory has the state now.
func (s *Supervisor) writeDomain(uid string, vm vmfile.VM) bool {
	data, err := vmfile.Encode(vm)
	if err == nil {
		err = s.PodDirs.WriteVM(uid, data)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a launcher without a pod directory
		s.Logger.Warn("the agent cannot publish the state of a pod's VM", "uid", uid, "error", err)
	}
	return err == nil
}
