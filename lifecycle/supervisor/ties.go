package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// addLauncher enters a launcher that is not known yet.
func (s *Supervisor) addLauncher(l registry.Launcher) *managedTie {
	m := tie.Launcher{Pod: l.Pod, Container: l.Container}
	if !l.Undecided {
		m.Domain = l.Domain
	}
	t := s.addTie(tie.New(m, s.termsFor(l), s.Clock.Now()))
	s.updateStopHandlers(l.Pod.UID, reconnectWait)
	return t
}

// hasPodDir reports whether the pod can give signs: it has no directory when it was
// created while nobody was here, or in observe mode.
func (s *Supervisor) hasPodDir(podUID string) bool {
	if s.PodDirs == nil {
		return false
	}
	_, err := s.PodDirs.Touched(podUID)
	return err == nil
}

// termsFor are those of the node, and what the launcher has declared.
func (s *Supervisor) termsFor(l registry.Launcher) tie.Terms {
	terms := s.Terms
	if l.GracePeriod > 0 {
		terms.GracePeriod = l.GracePeriod
	}
	if s.hasPodDir(l.Pod.UID) {
		terms.Watchdog = l.Watchdog
	}
	return terms
}

func (s *Supervisor) addTie(record tie.Tie) *managedTie {
	t := &managedTie{Tie: record, supervisedSince: s.Clock.Now(), handles: map[host.Process]host.Handle{}, examining: map[host.Process]bool{}, exits: map[host.Process]string{}, lateReported: map[host.Process]bool{}}
	if record.LauncherGone != "" {
		t.keepUntil = t.supervisedSince.Add(keepPeriod)
	}
	s.ties[record.Launcher.Container.ID] = t
	s.mu.Lock()
	s.podTies[record.Launcher.Pod.UID]++
	s.mu.Unlock()
	return t
}

// setLauncherProcess enters the launcher's first process as its owner.
func (s *Supervisor) setLauncherProcess(ctx context.Context, l registry.Launcher) {
	t := s.ties[l.Container.ID]
	if t == nil {
		t = s.addLauncher(l)
	}
	if !l.Undecided {
		t.Launcher.Domain = l.Domain
	}
	if t.LauncherProcess != nil || t.LauncherGone != "" || l.Container.PID == 0 {
		s.publish(t) // the registry may have been told of it just now
		return
	}
	t.Launcher.Container.PID = l.Container.PID
	ahead := t.Launcher.Group != 0 // of its first process
	p, cgroup, err := s.identifyLauncher(t, l.Container.PID)
	if err == nil {
		err = s.trackCgroup(ctx, t, cgroup)
	}
	if err == nil {
		_, err = s.openHandle(t, p)
	}
	switch {
	case errors.Is(err, host.ErrGone):
		s.step(t, tie.LauncherEnded{Proof: err.Error()})
	case err != nil:
		s.logger(&t.Tie).Warn("launcher cannot be watched; it is tried again", "error", err)
	default:
		s.watchLauncher(ctx, t, p)
		s.step(t, tie.LauncherStarted{Process: p})
		s.readPodDir(t)
		if ahead {
			s.requestScan(ctx, t, t.PendingScan())
		} else {
			s.resync(ctx) // processes that were there before it was registered
		}
	}
}

// identifyLauncher identifies the launcher's first process. Its pid can be another's by now:
// then its cgroup is not the container's, and that is gone.
func (s *Supervisor) identifyLauncher(t *managedTie, pid int) (p host.Process, cgroup string, err error) {
	p, err = s.Processes.Identify(pid)
	if err != nil {
		return p, "", err
	}
	cgroup, ok := host.ContainerCgroup(p.Cgroup, t.Launcher.Container.ID)
	if ok {
		return p, cgroup, nil
	}
	err = fmt.Errorf("process %d is in cgroup %s, not in one of container %s", pid, p.Cgroup, t.Launcher.Container.ID)
	if known := t.Launcher.Cgroup; known != "" {
		if there, e := s.Processes.Exists(known); e == nil && !there {
			err = fmt.Errorf("%w, whose cgroup is gone: %w", err, host.ErrGone)
		}
	}
	return p, "", err
}

// restoreTie takes a tie over from the store.
func (s *Supervisor) restoreTie(ctx context.Context, stored tie.Tie) {
	if s.ties[stored.Launcher.Container.ID] != nil {
		return
	}
	stored.Heartbeat.At = s.Clock.Now() // nobody looked for one
	t := s.addTie(stored)
	t.restored, t.othersUnknown = true, true
	s.logger(&t.Tie).Info("launcher taken over", "phase", t.Phase, "vms", len(t.VMs))
	if t.Launcher.Group != 0 {
		s.byGroup[t.Launcher.Group] = t
		s.restoreTracking(t)
	}
	terms := s.Terms // the policy's may have changed
	terms.GracePeriod, terms.Watchdog = stored.Terms.GracePeriod, stored.Terms.Watchdog
	s.step(t, tie.TermsChanged{Terms: terms}) // with which what was under way goes on
	s.updateStopHandlers(t.Launcher.Pod.UID, restartReconnectWait)
	s.reopenHandles(ctx, t)
	s.readPodDir(t)
	s.requestScan(ctx, t, t.PendingScan())
}

// step steps a tie, and does what that wants done.
func (s *Supervisor) step(t *managedTie, in tie.Input) {
	now := s.Clock.Now()
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

// dropTie forgets a tie that is over: no process of its group is left either, that could
// execute an emulator yet.
func (s *Supervisor) dropTie(ctx context.Context, t *managedTie) {
	id := t.Launcher.Container.ID
	if s.ties[id] != t {
		return
	}
	delete(s.ties, id)
	for _, h := range t.handles {
		s.closeHandle(h)
	}
	if group := t.Launcher.Group; group != 0 {
		delete(s.byGroup, group)
		if err := s.Tracker.Unregister(group); err != nil {
			s.logger(&t.Tie).Warn("a cgroup is still tracked", "cgroup", t.Launcher.Cgroup, "error", err)
		}
	}
	if err := s.Store.Delete(id); err != nil {
		s.logger(&t.Tie).Warn("a tie is still stored", "error", err)
	}
	s.mu.Lock()
	if uid := t.Launcher.Pod.UID; s.podTies[uid] > 1 {
		s.podTies[uid]--
	} else {
		delete(s.podTies, uid)
	}
	s.mu.Unlock()
	s.updateStopHandlers(t.Launcher.Pod.UID, reconnectWait)
	s.Registry.Release(id)
	s.logger(&t.Tie).Info("launcher is over", "why", t.Why)
	for _, other := range s.ties { // that may have waited for it
		if other.Launcher.Pod.UID == t.Launcher.Pod.UID {
			s.requestScan(ctx, other, other.PendingScan())
		}
	}
}

// save stores and shows what has changed.
func (s *Supervisor) save(t *managedTie) {
	kept := t.Tie
	kept.Heartbeat.At = 0 // nobody looked for one when the agent is back
	if err := s.Store.Save(kept); err != nil {
		s.logger(&t.Tie).Warn("a tie could not be stored", "error", err)
	}
	s.publish(t)
}

// publish writes what people see of a tie into the registry.
func (s *Supervisor) publish(t *managedTie) {
	vms, lease, since := s.publishedVMs(t), s.publishedLease(t), wallTime(s.Clock, t.Since)
	watchdog := t.Terms.Watchdog
	if t.LauncherGone != "" {
		watchdog = 0 // nobody expects a heartbeat
	}
	stop := t.PodShutdownRequest(s.Clock.Now())
	change := func(l *registry.Launcher) {
		l.Phase, l.PhaseSince, l.Why, l.Stop = t.Phase, since, t.Why, stop
		l.VMs, l.Lease = vms, lease
		l.SetHeartbeat(t.Heartbeat, watchdog)
	}
	if s.Registry.Update(t.Launcher.Container.ID, change) || len(vms) == 0 || t.LauncherGone == "" {
		return
	}
	// The runtime has forgotten it while nobody was here, and its VM runs.
	var left registry.Launcher
	left.Pod, left.Container, left.State = t.Launcher.Pod, t.Launcher.Container, agentapi.StateStopped
	change(&left)
	s.Registry.PutRemoved(left)
}

func (s *Supervisor) publishedVMs(t *managedTie) []agentapi.VM {
	var all []agentapi.VM
	for _, v := range t.VMs {
		shown := agentapi.VM{
			PID: v.PID, StartTime: v.StartTime, Executable: v.Executable,
			State: v.State, Since: wallTime(s.Clock, v.Since), Why: v.Why,
		}
		if v.Domain != nil {
			shown.Domain = v.Domain.Name
		}
		all = append(all, shown)
	}
	return all
}

func (s *Supervisor) publishedLease(t *managedTie) *agentapi.Lease {
	last := t.LastLease()
	if last.Until == 0 {
		return nil
	}
	return &agentapi.Lease{Reason: last.Reason, Until: wallTime(s.Clock, last.Until)}
}

// wallTime returns what a wall clock showed at b, as far as it has not been set since.
func wallTime(clock host.Clock, b host.Boottime) time.Time {
	return time.Now().Add(-clock.Now().Sub(b))
}
