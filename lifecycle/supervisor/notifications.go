package supervisor

import (
	"context"
	"fmt"

	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// Register lets the tracker track the processes of a launcher, before its first process runs. It
// makes a handful of system calls, so NRI handlers may call it. It clears a stop request of an
// earlier container of the pod.
//
// With an empty cgroup, the supervisor finds the cgroup after the start of the launcher.
func (s *Supervisor) Register(l registry.Launcher, cgroup string) error {
	var group uint64
	var err error
	if cgroup != "" {
		group, err = s.Tracker.Register(cgroup)
	}
	heartbeat := s.clearStopRequest(l.Pod.UID)
	s.clearDomain(l)
	s.enqueue(func(ctx context.Context) {
		if s.ties[l.Container.ID] == nil {
			t := s.addLauncher(l)
			t.lastHeartbeat, t.podDirRead = heartbeat, true
		}
		if group != 0 && err == nil {
			s.setGroup(ctx, s.ties[l.Container.ID], cgroup, group)
			s.resyncSoon()
		}
	})
	if err != nil {
		return fmt.Errorf("track the processes of container %s: %w", l.Container.Name, err)
	}
	return nil
}

// LauncherStarted notifies of the start of a launcher's first process. It adds a launcher that was
// not registered because it started in the agent's absence.
func (s *Supervisor) LauncherStarted(l registry.Launcher) {
	s.enqueue(func(ctx context.Context) { s.setLauncherProcess(ctx, l) })
}

// Reconciled notifies that the runtime has listed its launchers, and LauncherStarted was called for
// each.
func (s *Supervisor) Reconciled() {
	s.enqueue(func(ctx context.Context) {
		rescan := !s.reconciled
		s.reconciled = true
		for t := range s.withFormer() {
			rescan = rescan || t.othersUnknown
			t.othersUnknown = false
		}
		if rescan {
			s.scanAll(ctx)
		}
	})
}

// ScanLauncher requests a scan of the launcher with this container ID.
func (s *Supervisor) ScanLauncher(containerID string) {
	s.notify(func(ctx context.Context) {
		if t := s.ties[containerID]; t != nil {
			s.requestScan(ctx, t)
		}
	})
}

// ProcessEvent passes on an event of the tracker.
func (s *Supervisor) ProcessEvent(e ProcessEvent) {
	s.notify(func(ctx context.Context) { s.handleProcessEvent(ctx, e) })
}

// EventsLost notifies that the tracker has lost events.
func (s *Supervisor) EventsLost() { s.notify(func(context.Context) { s.resyncSoon() }) }

// PodTouched notifies that a pod has touched a file of its directory.
func (s *Supervisor) PodTouched(podUID string) {
	s.notify(func(context.Context) {
		for _, t := range s.ties {
			if t.Launcher.Pod.UID == podUID {
				s.readPodDir(t)
			}
		}
	})
}

// DomainsChanged notifies that domains of the node's libvirt have started or ended.
func (s *Supervisor) DomainsChanged() { s.notify(s.scanDomains) }
