package supervisor

import (
	"context"
	"errors"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// place notes where the container's cgroup is, and as which group it is tracked.
func (s *Supervisor) place(ctx context.Context, t *tied, cgroup string, group uint64) {
	t.Launcher.Cgroup, t.Launcher.Group = cgroup, group
	s.byGroup[group] = t
	for _, v := range t.VMs { // that were held on to without a group
		if v.Domain != nil {
			s.bind(ctx, t, v.Process)
		}
	}
	s.keep(t)
}

// track has the tracker know the processes of a launcher's cgroup. Where it has no room
// for them the launcher is looked after all the same, by what lives in its cgroup, and
// it is tried again: only [host.ErrGone] is returned.
func (s *Supervisor) track(ctx context.Context, t *tied, cgroup string) error {
	group, err := s.Tracker.Register(cgroup)
	switch {
	case err == nil:
		s.place(ctx, t, cgroup, group)
	case errors.Is(err, host.ErrGone):
		return err
	default:
		t.Launcher.Cgroup = cgroup
		s.log(&t.Tie).Warn("launcher cannot be tracked; it is tried again", "cgroup", cgroup, "error", err)
		s.keep(t)
	}
	return nil
}

// trackAgain has the tracker know a launcher that it had no room for. What it has of
// processes that are there already is found by a scan. Who only looks at what another
// tracks leaves that to the other.
func (s *Supervisor) trackAgain(ctx context.Context, t *tied) {
	if t.Launcher.Group != 0 || t.Launcher.Cgroup == "" || t.Over() || s.Terms.ProofOnly {
		return
	}
	err := s.track(ctx, t, t.Launcher.Cgroup)
	if err == nil && t.Launcher.Group != 0 {
		s.rescanSoon()
	}
}

// trackRestored sees to it that a cgroup that is still there is tracked: the tracker
// may have been made anew. Where it has no room, it has no group of that cgroup.
func (s *Supervisor) trackRestored(t *tied) {
	there, err := s.Processes.Exists(t.Launcher.Cgroup)
	if err == nil && there {
		_, err = s.Tracker.Register(t.Launcher.Cgroup)
	}
	if err == nil || errors.Is(err, host.ErrGone) {
		return
	}
	s.log(&t.Tie).Warn("launcher cannot be tracked; it is tried again", "cgroup", t.Launcher.Cgroup, "error", err)
	delete(s.byGroup, t.Launcher.Group)
	t.Launcher.Group = 0
}
