package supervisor

import (
	"context"
	"errors"
	"fmt"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// addLauncher adds the tie of a new launcher.
func (s *Supervisor) addLauncher(l registry.Launcher) *managedTie {
	launcher := tie.Launcher{Pod: l.Pod, Container: l.Container}
	if !l.Undecided {
		launcher.Domain = l.Domain
	}
	t := s.addTie(tie.New(launcher, s.termsFor(l), s.Clock.Now()))
	s.updateStopHandlers(l.Pod.UID, reconnectWait)
	return t
}

// termsFor returns the node's terms with the launcher's own grace period and watchdog.
func (s *Supervisor) termsFor(l registry.Launcher) tie.Terms {
	terms := s.terms
	if l.GracePeriod > 0 {
		terms.GracePeriod = l.GracePeriod
	}
	if s.hasPodDir(l.Pod.UID) {
		terms.Watchdog = l.Watchdog
	}
	return terms
}

// SetTerms replaces [Config.Terms], except for ProofOnly. A launcher keeps its grace period and its
// watchdog. A stop in progress goes on under the new terms.
func (s *Supervisor) SetTerms(terms tie.Terms) {
	s.enqueue(func(context.Context) {
		terms.ProofOnly = s.Terms.ProofOnly
		s.terms = terms
		for _, t := range s.ties {
			s.changeTerms(t)
		}
	})
}

// changeTerms applies the node's terms to a tie.
func (s *Supervisor) changeTerms(t *managedTie) {
	terms := s.terms
	terms.GracePeriod, terms.Watchdog = t.Terms.GracePeriod, t.Terms.Watchdog
	s.step(t, tie.TermsChanged{Terms: terms})
}

func (s *Supervisor) addTie(record tie.Tie) *managedTie {
	t := s.newManagedTie(record)
	s.attachTie(t)
	return t
}

func (s *Supervisor) newManagedTie(record tie.Tie) *managedTie {
	t := &managedTie{
		Tie:             record,
		supervisedSince: s.Clock.Now(),
		handles:         map[host.Process]*handle{},
		examining:       map[host.Process]bool{},
		pending:         map[host.Process]bool{},
		lateReported:    map[host.Process]bool{},
	}
	if record.LauncherGone != "" {
		t.keepUntil = t.supervisedSince.Add(keepPeriod)
	}
	return t
}

func (s *Supervisor) attachTie(t *managedTie) {
	s.ties[t.Launcher.Container.ID] = t
	s.mu.Lock()
	defer s.mu.Unlock()
	s.podTies[t.Launcher.Pod.UID]++
}

// isCurrent reports whether the supervisor still has this tie.
func (s *Supervisor) isCurrent(t *managedTie) bool { return s.ties[t.Launcher.Container.ID] == t }

// setLauncherProcess identifies the first process of a launcher, opens its handle and tracks its
// cgroup. It adds an unknown launcher.
func (s *Supervisor) setLauncherProcess(ctx context.Context, l registry.Launcher) {
	t := s.ties[l.Container.ID]
	if t == nil {
		t = s.addLauncher(l)
	}
	if !l.Undecided {
		t.Launcher.Domain = l.Domain
	}
	if t.LauncherProcess != nil || t.LauncherGone != "" || l.Container.PID == 0 {
		s.publish(t) // the launcher may be new in the registry
		return
	}
	t.Launcher.Container.PID = l.Container.PID
	trackedFromStart := t.Launcher.Group != 0
	p, cgroup, err := s.identifyLauncher(t, l.Container.PID)
	if err == nil {
		err = s.trackCgroup(ctx, t, cgroup)
	}
	if err == nil {
		_, err = s.openHandle(t, p)
	}
	switch {
	case errors.Is(err, host.ErrGone):
		if cgroup != "" { // p is the launcher, has ended since, and may have left a VM
			s.step(t, tie.LauncherStarted{Process: p})
		}
		s.step(t, tie.LauncherEnded{Proof: err.Error()})
	case err != nil:
		s.logger(t).Warn("the agent cannot watch a launcher; it retries", "error", err)
	default:
		s.watchLauncher(ctx, t, p)
		s.step(t, tie.LauncherStarted{Process: p})
		s.readPodDir(t)
		if trackedFromStart {
			s.requestScan(ctx, t)
		} else {
			s.resync(ctx) // the tracker lacks the processes from before the registration
		}
	}
}

// identifyLauncher returns the first process of a launcher and the cgroup of its container. Another
// process may have the pid: it is in another cgroup, and the launcher's own cgroup is gone.
func (s *Supervisor) identifyLauncher(
	t *managedTie, pid int,
) (p host.Process, cgroup string, err error) {
	p, err = s.Processes.Identify(pid)
	if err != nil {
		return p, "", err
	}
	id := t.Launcher.Container.ID
	cgroup, ok := host.ContainerCgroup(p.Cgroup, id)
	if ok {
		return p, cgroup, nil
	}
	err = fmt.Errorf("process %d is in cgroup %s, not in one of container %s", pid, p.Cgroup, id)
	if known := t.Launcher.Cgroup; known != "" {
		if exists, e := s.Processes.Exists(known); e == nil && !exists {
			err = fmt.Errorf("%w, whose cgroup is gone: %w", err, host.ErrGone)
		}
	}
	return p, "", err
}

// step applies an event to a tie, executes the actions, and saves the tie. Each event also checks
// the heartbeat, so a stall of the present turn excuses the launcher first. One reading of the
// clock decides about both: a freeze after it changes nothing.
func (s *Supervisor) step(t *managedTie, in tie.Input) {
	now := s.Clock.Now()
	if s.stalled(t, now) {
		t.ExcuseHeartbeat(now)
	}
	next, actions := tie.Step(t.Tie, now, in)
	ends := t.LauncherGone == "" && next.LauncherGone != ""
	if ends {
		t.keepUntil = now.Add(keepPeriod)
	}
	t.Tie = next
	for _, a := range actions {
		s.execute(t, a)
	}
	s.save(t)
	if ends {
		s.updateStopHandlers(t.Launcher.Pod.UID, reconnectWait)
	}
}

// dropTie forgets a tie that is over. A process of the launcher's group could still start an
// emulator, so the caller checks that there is none.
func (s *Supervisor) dropTie(ctx context.Context, t *managedTie) {
	id, podUID := t.Launcher.Container.ID, t.Launcher.Pod.UID
	if !s.isCurrent(t) {
		return
	}
	delete(s.ties, id)
	for _, h := range t.handles {
		s.closeHandle(h)
	}
	if group := t.Launcher.Group; group != 0 {
		delete(s.byGroup, group)
		if err := s.Tracker.Unregister(group); err != nil {
			s.logger(t).Warn("the tracker still tracks a cgroup", "cgroup", t.Launcher.Cgroup,
				"error", err)
		}
	}
	s.keepFormer(t) // before the end of the stored tie
	if err := s.Store.Delete(id); err != nil {
		s.logger(t).Warn("the store still has a tie", "error", err)
	}
	s.mu.Lock()
	if s.podTies[podUID]--; s.podTies[podUID] == 0 {
		delete(s.podTies, podUID)
	}
	s.mu.Unlock()
	s.updateStopHandlers(podUID, reconnectWait)
	s.Registry.Release(id)
	s.logger(t).Info("the launcher and its VM processes have ended", "why", t.Why)
	s.requestPodScans(ctx, podUID)
}
