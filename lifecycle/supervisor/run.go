package supervisor

import (
	"context"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

const (
	// podDirInterval and resyncInterval are the periods of reading all pod directories and of a
	// resync, without a notification.
	podDirInterval = 10 * time.Second
	resyncInterval = 30 * time.Second

	// aliveInterval is the period of ReportAlive.
	aliveInterval = time.Second
)

// Run supervises until ctx is done. It returns after its background work. The tracker keeps the
// registered launchers.
func (s *Supervisor) Run(ctx context.Context) {
	defer s.background.Wait()
	podDirs, resync := time.NewTicker(podDirInterval), time.NewTicker(resyncInterval)
	alive, due := time.NewTicker(aliveInterval), time.NewTimer(0)
	defer podDirs.Stop()
	defer resync.Stop()
	defer alive.Stop()
	defer due.Stop()
	s.reportAlive()
	s.lastTurn = s.Clock.Now()
	for ctx.Err() == nil {
		waiting := s.drainMailbox()
		s.detectAbsence(ctx) // after the drain: the turn has no observation from after this check
		for _, work := range waiting {
			work(ctx)
		}
		s.stepDue() // after new heartbeats
		if s.ownersChanged {
			s.publishOwners()
		}
		s.setTimer(due)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-due.C:
		case <-podDirs.C:
			s.readAllPodDirs()
			s.recordAlive()
		case <-resync.C:
			s.resync(ctx)
		case <-alive.C:
			s.reportAlive()
			s.ownersChanged = true // heartbeats and dropped ties
		}
	}
	if !s.Terms.ProofOnly { // the fence ends because the agent is back and records more
		s.recordAlive()
	}
	s.closeHandles()
}

func (s *Supervisor) reportAlive() {
	if s.ReportAlive != nil {
		s.ReportAlive()
	}
}

// setTimer sets the timer to the next due time of all ties.
func (s *Supervisor) setTimer(timer *time.Timer) {
	next := time.Hour
	now := s.Clock.Now()
	for _, t := range s.ties {
		if at, ok := t.Due(); ok {
			next = min(next, max(at.Sub(now), 0))
		}
	}
	timer.Reset(next)
}

// stepDue steps the ties that are due.
func (s *Supervisor) stepDue() {
	now := s.Clock.Now()
	for _, t := range s.ties {
		if at, ok := t.Due(); ok && at <= now {
			s.readPodDir(t) // there may be a new heartbeat
			s.step(t, tie.TimePassed{})
		}
	}
}
