package supervisor

import (
	"context"
	"errors"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// setGroup sets the cgroup of a launcher and its group in the tracker.
func (s *Supervisor) setGroup(ctx context.Context, t *managedTie, cgroup string, group uint64) {
	t.Launcher.Cgroup, t.Launcher.Group = cgroup, group
	s.byGroup[group] = t
	for _, v := range t.VMs { // node-level ones had no group until now
		if v.Domain != nil {
			s.bindProcess(ctx, t, v.Process)
		}
	}
	s.save(t)
}

// trackCgroup registers the cgroup of a launcher with the tracker. If the tracker is full, the
// supervisor reads the cgroup instead and retries. The only error is [host.ErrGone].
func (s *Supervisor) trackCgroup(ctx context.Context, t *managedTie, cgroup string) error {
	group, err := s.Tracker.Register(cgroup)
	switch {
	case err == nil:
		s.setGroup(ctx, t, cgroup, group)
	case errors.Is(err, host.ErrGone):
		return err
	default:
		t.Launcher.Cgroup = cgroup
		s.warnUntracked(t, err)
		s.save(t)
	}
	return nil
}

func (s *Supervisor) warnUntracked(t *managedTie, err error) {
	s.logger(t).Warn("the tracker cannot track a launcher; the agent retries",
		"cgroup", t.Launcher.Cgroup, "error", err)
}

// retryTracking tracks a launcher that the tracker had no room for. A resync then finds its earlier
// processes. The fence does not register: it only reads the agent's tracker.
func (s *Supervisor) retryTracking(ctx context.Context, t *managedTie) {
	if t.Launcher.Group != 0 || t.Launcher.Cgroup == "" || t.Over() || s.Terms.ProofOnly {
		return
	}
	err := s.trackCgroup(ctx, t, t.Launcher.Cgroup)
	if err == nil && t.Launcher.Group != 0 {
		s.resyncSoon()
	}
}
