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

// enroll enters a launcher that is not known yet.
func (s *Supervisor) enroll(l registry.Launcher) *tied {
	m := tie.Launcher{Pod: l.Pod, Container: l.Container}
	if !l.Undecided {
		m.Domain = l.Domain
	}
	t := s.add(tie.New(m, s.terms(l), s.Clock.Now()))
	s.settleTakers(l.Pod.UID, leftWait)
	return t
}

// signs reports whether the pod can give signs: it has no directory when it was
// created while nobody was here, or in observe mode.
func (s *Supervisor) signs(podUID string) bool {
	if s.PodDirs == nil {
		return false
	}
	_, err := s.PodDirs.Touched(podUID)
	return err == nil
}

// terms are those of the node, and what the launcher has declared.
func (s *Supervisor) terms(l registry.Launcher) tie.Terms {
	terms := s.Terms
	if l.GracePeriod > 0 {
		terms.GracePeriod = l.GracePeriod
	}
	if s.signs(l.Pod.UID) {
		terms.Watchdog = l.Watchdog
	}
	return terms
}

func (s *Supervisor) add(record tie.Tie) *tied {
	t := &tied{Tie: record, here: s.Clock.Now(), handles: map[host.Process]host.Handle{}, coming: map[host.Process]bool{}, how: map[host.Process]string{}, late: map[host.Process]bool{}}
	if record.OwnerGone != "" {
		t.lingers = t.here.Add(lingerPeriod)
	}
	s.ties[record.Launcher.Container.ID] = t
	s.mu.Lock()
	s.holding[record.Launcher.Pod.UID]++
	s.mu.Unlock()
	return t
}

// started enters the launcher's first process as its owner.
func (s *Supervisor) started(ctx context.Context, l registry.Launcher) {
	t := s.ties[l.Container.ID]
	if t == nil {
		t = s.enroll(l)
	}
	if !l.Undecided {
		t.Launcher.Domain = l.Domain
	}
	if t.Owner != nil || t.OwnerGone != "" || l.Container.PID == 0 {
		s.show(t) // the registry may have been told of it just now
		return
	}
	t.Launcher.Container.PID = l.Container.PID
	ahead := t.Launcher.Group != 0 // of its first process
	p, cgroup, err := s.owner(t, l.Container.PID)
	if err == nil {
		err = s.track(ctx, t, cgroup)
	}
	if err == nil {
		_, err = s.hold(t, p)
	}
	switch {
	case errors.Is(err, host.ErrGone):
		s.step(t, tie.OwnerEnded{Proof: err.Error()})
	case err != nil:
		s.log(&t.Tie).Warn("launcher cannot be watched; it is tried again", "error", err)
	default:
		s.watch(ctx, t, p)
		s.step(t, tie.OwnerStarted{Process: p})
		s.readSigns(t)
		if ahead {
			s.want(ctx, t, t.PendingScan())
		} else {
			s.findLost(ctx) // processes that were there before it was registered
		}
	}
}

// owner identifies the launcher's first process. Its pid can be another's by now:
// then its cgroup is not the container's, and that is gone.
func (s *Supervisor) owner(t *tied, pid int) (p host.Process, cgroup string, err error) {
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

// restore takes a tie over from the store.
func (s *Supervisor) restore(ctx context.Context, stored tie.Tie) {
	if s.ties[stored.Launcher.Container.ID] != nil {
		return
	}
	stored.Beat.At = s.Clock.Now() // nobody looked for one
	t := s.add(stored)
	t.restored, t.doubtful = true, true
	s.log(&t.Tie).Info("launcher taken over", "phase", t.Phase, "vms", len(t.VMs))
	if t.Launcher.Group != 0 {
		s.byGroup[t.Launcher.Group] = t
		s.trackRestored(t)
	}
	terms := s.Terms // the policy's may have changed
	terms.GracePeriod, terms.Watchdog = stored.Terms.GracePeriod, stored.Terms.Watchdog
	s.step(t, tie.TermsChanged{Terms: terms}) // with which what was under way goes on
	s.settleTakers(t.Launcher.Pod.UID, awayWait)
	s.holdAgain(ctx, t)
	s.readSigns(t)
	s.want(ctx, t, t.PendingScan())
}

// step steps a tie, and does what that wants done.
func (s *Supervisor) step(t *tied, in tie.Input) {
	now := s.Clock.Now()
	next, actions := tie.Step(t.Tie, now, in)
	ends := t.OwnerGone == "" && next.OwnerGone != ""
	if ends {
		t.lingers = now.Add(lingerPeriod)
	}
	t.Tie = next
	for _, a := range actions {
		s.act(t, a)
	}
	s.keep(t)
	if ends {
		s.settleTakers(t.Launcher.Pod.UID, leftWait)
	}
}

// drop forgets a tie that is over: no process of its group is left either, that could
// execute an emulator yet.
func (s *Supervisor) drop(ctx context.Context, t *tied) {
	id := t.Launcher.Container.ID
	if s.ties[id] != t {
		return
	}
	delete(s.ties, id)
	for _, h := range t.handles {
		s.close(h)
	}
	if group := t.Launcher.Group; group != 0 {
		delete(s.byGroup, group)
		if err := s.Tracker.Unregister(group); err != nil {
			s.log(&t.Tie).Warn("a cgroup is still tracked", "cgroup", t.Launcher.Cgroup, "error", err)
		}
	}
	if err := s.Store.Delete(id); err != nil {
		s.log(&t.Tie).Warn("a tie is still stored", "error", err)
	}
	s.mu.Lock()
	if uid := t.Launcher.Pod.UID; s.holding[uid] > 1 {
		s.holding[uid]--
	} else {
		delete(s.holding, uid)
	}
	s.mu.Unlock()
	s.settleTakers(t.Launcher.Pod.UID, leftWait)
	s.Registry.Release(id)
	s.log(&t.Tie).Info("launcher is over", "why", t.Why)
	for _, other := range s.ties { // that may have waited for it
		if other.Launcher.Pod.UID == t.Launcher.Pod.UID {
			s.want(ctx, other, other.PendingScan())
		}
	}
}

// keep stores and shows what has changed.
func (s *Supervisor) keep(t *tied) {
	kept := t.Tie
	kept.Beat.At = 0 // nobody looked for one when the agent is back
	if err := s.Store.Save(kept); err != nil {
		s.log(&t.Tie).Warn("a tie could not be stored", "error", err)
	}
	s.show(t)
}

// show writes what people see of a tie into the registry.
func (s *Supervisor) show(t *tied) {
	vms, lease, since := s.vms(t), s.lease(t), wall(s.Clock, t.Since)
	watchdog := t.Terms.Watchdog
	if t.OwnerGone != "" {
		watchdog = 0 // nobody expects a heartbeat
	}
	stop := t.PodStop(s.Clock.Now())
	change := func(l *registry.Launcher) {
		l.Phase, l.PhaseSince, l.Why, l.Stop = t.Phase, since, t.Why, stop
		l.VMs, l.Lease = vms, lease
		l.SetHeartbeat(t.Beat, watchdog)
	}
	if s.Registry.Update(t.Launcher.Container.ID, change) || len(vms) == 0 || t.OwnerGone == "" {
		return
	}
	// The runtime has forgotten it while nobody was here, and its VM runs.
	var left registry.Launcher
	left.Pod, left.Container, left.State = t.Launcher.Pod, t.Launcher.Container, agentapi.StateStopped
	change(&left)
	s.Registry.PutRemoved(left)
}

func (s *Supervisor) vms(t *tied) []agentapi.VM {
	var all []agentapi.VM
	for _, v := range t.VMs {
		shown := agentapi.VM{
			PID: v.PID, StartTime: v.StartTime, Executable: v.Executable,
			State: v.State, Since: wall(s.Clock, v.Since), Why: v.Why,
		}
		if v.Domain != nil {
			shown.Domain = v.Domain.Name
		}
		all = append(all, shown)
	}
	return all
}

func (s *Supervisor) lease(t *tied) *agentapi.Lease {
	last := t.LastLease()
	if last.Until == 0 {
		return nil
	}
	return &agentapi.Lease{Reason: last.Reason, Until: wall(s.Clock, last.Until)}
}

// wall returns what a wall clock showed at b, as far as it has not been set since.
func wall(clock host.Clock, b host.Boottime) time.Time {
	return time.Now().Add(-clock.Now().Sub(b))
}
