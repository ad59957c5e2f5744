package supervisor

import (
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// save stores a tie and publishes it.
func (s *Supervisor) save(t *managedTie) {
	record := t.Tie
	record.Heartbeat.At = 0 // without meaning for the next agent
	if err := s.Store.Save(record); err != nil {
		s.logger(t).Warn("the agent cannot store a tie", "error", err)
	}
	s.publish(t)
}

// publish writes the state of a tie into the registry, and that of its node-level VM into the pod's
// directory.
func (s *Supervisor) publish(t *managedTie) {
	s.publishDomain(t)
	vms, lease, since := s.publishedVMs(t), s.publishedLease(t), wallTime(s.Clock, t.Since)
	watchdog := t.Terms.Watchdog
	if t.LauncherGone != "" {
		watchdog = 0 // no heartbeat is due
	}
	request := t.PodShutdownRequest(s.Clock.Now())
	change := func(l *registry.Launcher) {
		l.Phase, l.PhaseSince, l.Why, l.Stop = t.Phase, since, t.Why, request
		l.VMs, l.Lease, l.Ended = vms, lease, t.LauncherGone != ""
		l.SetHeartbeat(t.Heartbeat, watchdog)
	}
	s.ownersChanged = s.ownersChanged || t.Launcher.Domain != ""
	known := s.Registry.Update(t.Launcher.Container.ID, change)
	if known || len(vms) == 0 || t.LauncherGone == "" {
		return
	}
	// The runtime removed the container in the agent's absence, and its VM still runs.
	var removed registry.Launcher
	removed.Pod, removed.Container = t.Launcher.Pod, t.Launcher.Container
	removed.State = agentapi.StateStopped
	change(&removed)
	s.Registry.PutRemoved(removed)
}

func (s *Supervisor) publishedVMs(t *managedTie) []agentapi.VM {
	var all []agentapi.VM
	for _, v := range t.VMs {
		shown := agentapi.VM{
			PID: v.PID, StartTime: v.Ticks(), Executable: v.Executable,
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

// wallTime returns the wall-clock time of a moment. A step of the wall clock since then shifts it.
func wallTime(clock host.Clock, b host.Boottime) time.Time {
	return time.Now().Add(-clock.Now().Sub(b))
}
