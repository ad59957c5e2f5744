package supervisor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/gate"
)

// Publish calls PublishOwners, and returns after that or at the end of ctx. It needs a running
// supervisor.
func (s *Supervisor) Publish(ctx context.Context) {
	done := make(chan struct{})
	s.enqueue(func(context.Context) {
		s.publishOwners()
		close(done)
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// publishOwners publishes the launchers that declare a domain, in a stable order.
func (s *Supervisor) publishOwners() {
	s.ownersChanged = false
	if s.PublishOwners == nil {
		return
	}
	var owners []gate.Owner
	for _, t := range s.ties {
		if t.Launcher.Domain != "" {
			owners = append(owners, ownerOf(t))
		}
	}
	slices.SortFunc(owners, func(a, b gate.Owner) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.PID, b.PID))
	})
	s.PublishOwners(owners)
}

// ownerOf returns the launcher of a tie for the start gate. It does not use the tie's heartbeat:
// after a restart of the agent that is younger than the launcher's last one.
func ownerOf(t *managedTie) gate.Owner {
	pod := t.Launcher.Pod
	o := gate.Owner{
		Domain: t.Launcher.Domain, Pod: pod.Namespace + "/" + pod.Name, Inactive: t.Inactive(),
	}
	if p := t.LauncherProcess; p != nil {
		o.PID, o.Ticks = p.PID, p.Ticks()
	}
	if t.Terms.Watchdog > 0 {
		o.HeartbeatUntil = time.Duration(t.heartbeatAt.Add(t.Terms.Watchdog))
		if o.Inactive == "" && t.heartbeatAt == 0 {
			o.Inactive = "the agent has observed no heartbeat of its launcher since the agent's start"
		}
	}
	return o
}
