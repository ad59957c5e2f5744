package supervisor

import (
	"context"
	"time"
)

// resyncDelay is the time between a new launcher and the resync that finds its earlier processes.
const resyncDelay = 2 * time.Second

// resyncState is the state of a resync.
type resyncState int

const (
	resyncIdle resyncState = iota
	resyncRunning
	resyncAgain // one runs, and another one is requested
)

// resync recovers lost events: the tracker rescans the node, and the supervisor reads all pod
// directories and scans all launchers.
func (s *Supervisor) resync(ctx context.Context) {
	if s.resyncing != resyncIdle {
		s.resyncing = resyncAgain
		return
	}
	s.resyncing = resyncRunning
	s.inBackground(ctx, func(context.Context) func(context.Context) {
		err := s.Tracker.Rescan()
		return func(ctx context.Context) {
			again := s.resyncing == resyncAgain
			s.resyncing = resyncIdle
			if err != nil {
				s.Logger.Warn("the tracker cannot rescan the node; the agent retries", "error", err)
			}
			s.readAllPodDirs()
			s.scanAll(ctx)
			if again {
				s.resync(ctx)
			}
		}
	})
}

// resyncSoon starts one resync for all calls within resyncDelay. It does not wait longer, because
// the tracker does extra work between a registration and the next rescan.
func (s *Supervisor) resyncSoon() {
	if s.resyncDue {
		return
	}
	s.resyncDue = true
	time.AfterFunc(resyncDelay, func() {
		s.enqueue(func(ctx context.Context) {
			s.resyncDue = false
			s.resync(ctx)
		})
	})
}
