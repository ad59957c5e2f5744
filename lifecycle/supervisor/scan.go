package supervisor

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

const (
	// maxVMs bounds the known VM processes of the pod per launcher, because a launcher can start
	// any number. A tie with more VM processes is never over.
	maxVMs = 64

	// keepPeriod is the time for which the supervisor keeps a tie with a declared domain after its
	// end. libvirt records the pid of a domain only after it has started the process.
	keepPeriod = 10 * time.Second
)

// scanQueue has the requested scans. One scan runs at a time, for all requests before its start.
type scanQueue struct {
	requested map[*managedTie]uint64 // the ID of the [tie.RequestScan], 0 for another cause
	running   bool
}

// requestScan requests a scan of the launcher's VM processes.
func (s *Supervisor) requestScan(ctx context.Context, t *managedTie) {
	s.scans.requested[t] = max(s.scans.requested[t], t.PendingScan())
	if !s.scans.running {
		s.startScan(ctx)
	}
}

// requestPodScans requests a scan of each launcher of a pod. One may have waited for another.
func (s *Supervisor) requestPodScans(ctx context.Context, podUID string) {
	for _, t := range s.ties {
		if t.Launcher.Pod.UID == podUID {
			s.requestScan(ctx, t)
		}
	}
}

// startScan starts one scan for all requests.
func (s *Supervisor) startScan(ctx context.Context) {
	requested := s.scans.requested
	s.scans.requested, s.scans.running = map[*managedTie]uint64{}, true
	request := scanRequest{
		known: s.knownVMs(), full: s.fullGroups(), cgroups: s.cgroupsByGroup(),
		launchers:       s.launchersToRead(requested),
		domainsDeclared: s.domainsDeclared(), leftCgroups: s.leftCgroups(),
	}
	s.inBackground(ctx, func(ctx context.Context) func(context.Context) {
		result, err := s.scan(ctx, request)
		return func(ctx context.Context) {
			s.scans.running = false
			s.applyScan(ctx, requested, result, err)
			if len(s.scans.requested) > 0 && !s.scans.running {
				s.startScan(ctx)
			}
		}
	})
}

// knownVMs returns the VM processes of all ties.
func (s *Supervisor) knownVMs() map[host.Process]bool {
	all := map[host.Process]bool{}
	for _, t := range s.ties {
		for _, v := range t.VMs {
			all[v.Process.ID()] = true
		}
	}
	return all
}

// fullGroups returns the groups with maxVMs known VM processes.
func (s *Supervisor) fullGroups() map[uint64]bool {
	all := map[uint64]bool{}
	for group, t := range s.byGroup {
		if len(t.VMs) >= maxVMs {
			all[group] = true
		}
	}
	return all
}

// launchersToRead returns the launchers of the requests, and all launchers without a group, for
// which the tracker has no events.
func (s *Supervisor) launchersToRead(requested map[*managedTie]uint64) map[string]tie.Launcher {
	all := map[string]tie.Launcher{}
	for id, t := range s.ties {
		if _, ok := requested[t]; ok || t.Launcher.Group == 0 {
			all[id] = t.Launcher
		}
	}
	return all
}

// domainsDeclared reports whether libvirt's records matter: any launcher declares a domain, or has
// declared it. Outside of the fence they always do, because a domain may name its owner.
func (s *Supervisor) domainsDeclared() bool {
	if s.Domains != nil && !s.Terms.ProofOnly {
		return true
	}
	for _, t := range s.ties {
		if t.Launcher.Domain != "" {
			return true
		}
	}
	return len(s.former) > 0
}

// applyScan applies the result of a scan to the ties. A failed scan proves nothing, and the next
// resync repeats it.
func (s *Supervisor) applyScan(
	ctx context.Context, requested map[*managedTie]uint64, result *scanResult, err error,
) {
	if err != nil {
		s.Logger.Warn("the scan for VM processes failed; the agent retries", "error", err)
		for t, id := range requested {
			if id != 0 && s.isCurrent(t) {
				s.reportWait(t, "a list of the node's processes, because a scan has failed",
					t.Terms.TermPeriod)
			}
		}
		return
	}
	for _, p := range result.emulators {
		t := s.tieOf(result, p)
		if d, ok := result.domains[p.ID()]; ok {
			s.assignDomain(ctx, d, p, result)
		} else if result.inherited[p.ID()] {
			continue // the next resync repeats the scan
		} else if t != nil && result.unread[p.ID()] {
			s.scanAfterFork(t)
		} else if t != nil && !result.probes[p.ID()] {
			s.addVM(t, tie.VM{Process: p.Process, Executable: p.Executable})
		}
	}
	s.updatePending(result)
	s.forgetEmptied(result)
	s.forgetUnowned(result)
	for t, id := range requested {
		s.concludeScan(ctx, t, id, result)
	}
}

// tieOf returns the tie of an emulator by its group, or by its cgroup for a launcher without group.
// A domain declared by another pod does not belong to the tie of its group.
func (s *Supervisor) tieOf(result *scanResult, p Tracked) *managedTie {
	if t := s.byGroup[p.Group]; t != nil {
		d, ok := result.domains[p.ID()]
		if ok && !p.Bound && s.claimedElsewhere(t, d) {
			return nil
		}
		return t
	}
	return s.ties[result.containerOf[p.ID()]]
}

// concludeScan steps the tie if the scan has found no VM process, and drops a tie that is over.
func (s *Supervisor) concludeScan(
	ctx context.Context, t *managedTie, id uint64, result *scanResult,
) {
	if s.isCurrent(t) {
		s.checkCgroup(t)
	}
	if id == 0 {
		t.wait = stopWait{}
	} else if s.isCurrent(t) {
		s.concludeStop(t, id, result)
	}
	over := s.isCurrent(t) && t.Over()
	if !over || len(t.pending) > 0 || result.mayHaveProcesses(t.Launcher) ||
		s.unaccountedDomain(t, result) != "" {
		return
	}
	if wait := t.keepUntil.Sub(s.Clock.Now()); wait > 0 && t.Launcher.Domain != "" {
		s.scanBeforeDrop(t, wait)
		return
	}
	s.dropTie(ctx, t)
}

// concludeStop steps the tie if the scan proves the end of all VM processes. Otherwise it reports a
// long wait. All launchers of a pod share one stop request, so it also waits for their VMs.
func (s *Supervisor) concludeStop(t *managedTie, id uint64, result *scanResult) {
	why, orderly := s.unprovenEnd(t, result), t.Terms.TermPeriod
	if why == "" && t.StopRequested && s.podHasOtherVMs(t) {
		why = "the VM of another launcher of the pod"
		orderly += t.Terms.GracePeriod
	}
	if why != "" {
		s.reportWait(t, why, orderly)
		return
	}
	t.wait = stopWait{}
	s.step(t, tie.Scanned{ID: id})
}

// addVM adds a VM process to a tie and opens its handle. The start of a process from before this
// supervisor was not observed.
func (s *Supervisor) addVM(t *managedTie, v tie.VM) {
	full := v.Domain == nil && len(t.VMs) >= maxVMs
	if !s.isCurrent(t) || t.VM(v.Process) != nil || full {
		return
	}
	s.readPodDir(t) // the launcher may have given its first heartbeat just before
	_, err := s.openHandle(t, v.Process)
	switch {
	case err == nil && v.StartedBefore(t.supervisedSince):
		s.step(t, tie.Scanned{Found: []tie.VM{v}})
	case err == nil:
		s.step(t, tie.VMStarted{VM: v})
	case !errors.Is(err, host.ErrGone):
		s.logger(t).Warn("the agent cannot watch a VM process; it retries", "pid", v.PID,
			"error", err)
	}
}

// checkCgroup takes the end of the container's cgroup as proof of the launcher's end. It needs no
// such proof for a known launcher process, which may have moved to another cgroup.
func (s *Supervisor) checkCgroup(t *managedTie) {
	if t.LauncherGone != "" || t.LauncherProcess != nil || t.Launcher.Cgroup == "" {
		return
	}
	if exists, err := s.Processes.Exists(t.Launcher.Cgroup); err == nil && !exists {
		s.step(t, tie.LauncherEnded{Proof: "its cgroup is gone"})
	}
}

// scanAll repeats failed work of all ties and scans them. It drops a tie whose launcher never
// started and is gone from the runtime.
func (s *Supervisor) scanAll(ctx context.Context) {
	for _, t := range maps.Clone(s.ties) {
		l, known := s.Registry.Find(t.Launcher.Container.ID)
		neverStarted := t.LauncherProcess == nil && t.Launcher.Group == 0
		switch {
		case known && t.LauncherProcess == nil && t.LauncherGone == "":
			s.setLauncherProcess(ctx, l)
		case !known && neverStarted && (!t.restored || s.reconciled):
			s.dropTie(ctx, t)
		default:
			s.retryTracking(ctx, t)
			s.reopenHandles(ctx, t)
		}
		if s.isCurrent(t) {
			s.requestScan(ctx, t)
		}
	}
	s.scanUngrouped(ctx) // a node may have former launchers only
}
