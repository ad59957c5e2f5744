package supervisor

import (
	"context"
	"time"
)

const (
	// forkDelay is the time for a child of an emulator to execute another file, as QEMU's helpers
	// do at once.
	forkDelay = 500 * time.Millisecond

	// helperDelay is the time between two scans for the helpers of an ended VM.
	helperDelay = time.Second

	// domainScanInterval is the shortest time between two scans for domains.
	domainScanInterval = 250 * time.Millisecond
)

// scanAfterFork scans a launcher a little after a fork: QEMU becomes a daemon by a fork.
func (s *Supervisor) scanAfterFork(t *managedTie) { s.scanLater(t, &t.scanDue, forkDelay) }

// scanBeforeDrop scans a finished launcher once more before its tie is dropped.
func (s *Supervisor) scanBeforeDrop(t *managedTie, wait time.Duration) {
	s.scanLater(t, &t.dropScanDue, wait)
}

// scanLater scans a launcher after a delay. due is set until then and avoids a second timer.
func (s *Supervisor) scanLater(t *managedTie, due *bool, wait time.Duration) {
	if *due {
		return
	}
	*due = true
	time.AfterFunc(wait, func() {
		s.enqueue(func(ctx context.Context) {
			if *due = false; s.isCurrent(t) {
				s.requestScan(ctx, t)
			}
		})
	})
}

// scanDomains scans for VM processes without a group: for launchers with a declared domain, and
// launchers without a group of their own. Frequent calls share a scan.
func (s *Supervisor) scanDomains(ctx context.Context) {
	if !s.domainScanDue && s.scanUngrouped(ctx) {
		s.domainScanDue = true
		time.AfterFunc(domainScanInterval, func() { s.enqueue(s.scanDomainsAgain) })
	}
}

// scanDomainsAgain scans for the calls of scanDomains since the last scan.
func (s *Supervisor) scanDomainsAgain(ctx context.Context) {
	s.domainScanDue = false
	s.scanUngrouped(ctx)
}

// scanUngrouped requests one scan for these launchers and former ones, and reports whether there
// are any. The request names only the ties that wait for a scan, and one other.
func (s *Supervisor) scanUngrouped(ctx context.Context) bool {
	found := s.Domains != nil && (len(s.former) > 0 || !s.Terms.ProofOnly)
	for _, t := range s.ties {
		withDomain := t.Launcher.Domain != "" && s.Domains != nil
		withoutGroup := t.Launcher.Group == 0 && t.Launcher.Cgroup != ""
		waits := t.PendingScan() != 0 || t.Over()
		if (withDomain || withoutGroup) && (waits || !found) {
			s.scans.requested[t] = max(s.scans.requested[t], t.PendingScan())
			found = true
		}
	}
	if found && !s.scans.running {
		s.startScan(ctx)
	}
	return found
}
