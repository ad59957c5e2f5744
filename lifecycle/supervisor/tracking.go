package supervisor

import (
	"context"
	"errors"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// setGroup notes where the container's cgroup is, and as which group it is tracked.
func (s *Supervisor) setGroup(ctx context.Context, t *managedTie, cgroup string, group uint64) {
	t.Launcher.Cgroup, t.Launcher.Group = cgroup, group
	s.byGroup[group] = t
	for _, v := range t.VMs { // that were held on to without a group
		if v.Domain != nil {
			s.bindProcess(ctx, t, v.Process)
		}
	}
	s.save(t)
}

// trackCgroup has the tracker know the processes of a launcher's cgroup. Where it has no room
// for them the launcher is looked after all the same, by what lives in its cgroup, and
// it is tried again: only [host.ErrGone] is returned.
func (s *Supervisor) trackCgroup(ctx context.Context, t *managedTie, cgroup string) error {
	group, err := s.Tracker.Register(cgroup)
	switch {
	case err == nil:
		s.setGroup(ctx, t, cgroup, group)
	case errors.Is(err, host.ErrGone):
		return err
	default:
		t.Launcher.Cgroup = cgroup
		s.logger(&t.Tie).Warn("launcher cannot be tracked; it is tried again", "cgroup", cgroup, "error", err)
		s.save(t)
	}
	return nil
}

// retryTracking has the tracker know a launcher that it had no room for. What it has of
// processes that are there already is found by a scan. Who only looks at what another
// tracks leaves that to the other.
func (s *Supervisor) retryTracking(ctx context.Context, t *managedTie) {
	if t.Launcher.Group != 0 || t.Launcher.Cgroup == "" || t.Over() || s.Terms.ProofOnly {
		return
	}
	err := s.trackCgroup(ctx, t, t.Launcher.Cgroup)
	if err == nil && t.Launcher.Group != 0 {
		s.resyncSoon()
	}
}

// restoreTracking sees to it that a cgroup that is still there is tracked: the tracker
// may have been made anew. Where it has no room, it has no group of that cgroup.
func (s *Supervisor) restoreTracking(t *managedTie) {
	there, err := s.Processes.Exists(t.Launcher.Cgroup)
	if err == nil && there {
		_, err = s.Tracker.Register(t.Launcher.Cgroup)
	}
	if err == nil || errors.Is(err, host.ErrGone) {
		return
	}
	s.logger(&t.Tie).Warn("launcher cannot be tracked; it is tried again", "cgroup", t.Launcher.Cgroup, "error", err)
	delete(s.byGroup, t.Launcher.Group)
	t.Launcher.Group = 0
}
