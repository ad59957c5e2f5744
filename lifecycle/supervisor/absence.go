package supervisor

import (
	"context"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// absenceAfter is the longest turn of Run that is no absence. In a longer one the agent was
// stopped, or the node slept.
const absenceAfter = 10 * time.Second

// detectAbsence begins a turn of Run, and resumes after an absence. The turn begins at a reading of
// the clock before this work. So a freeze during the work belongs to the new turn and counts.
func (s *Supervisor) detectAbsence(ctx context.Context) {
	now := s.Clock.Now()
	if away := now.Sub(s.lastTurn); away > absenceAfter {
		s.Logger.Warn("the supervisor was stopped for a while and resumes", "for", away)
		now = s.awaitFence(ctx)
		s.resumeAfterAbsence()
	} else {
		s.excuseStalls(now)
	}
	s.lastTurn = now
}

// excuseStalls gives each heartbeat its whole time again if the turn was a stall for it. It is no
// event: a waiting one, such as the renewal of a lease, comes before the deadlines.
func (s *Supervisor) excuseStalls(now host.Boottime) {
	for _, t := range s.ties {
		if s.stalled(t, now) {
			t.ExcuseHeartbeat(now)
		}
	}
}

// stalled reports whether the present turn of Run takes a notable part of the watchdog. In a freeze
// of the node the launcher could not send a heartbeat, and the supervisor could not read one.
func (s *Supervisor) stalled(t *managedTie, now host.Boottime) bool {
	w := t.Terms.Watchdog
	return w > 0 && now.Sub(s.lastTurn) > max(w/4, 2*aliveInterval)
}

// awaitFence waits for the fence, and returns the time after the wait. The wait is no absence.
func (s *Supervisor) awaitFence(ctx context.Context) host.Boottime {
	if s.AfterAbsence == nil {
		return s.Clock.Now()
	}
	s.AfterAbsence(ctx)
	now := s.Clock.Now()
	s.loadLauncherEnds()
	return now
}

// resumeAfterAbsence finds launchers that have ended, and gives each heartbeat its whole time
// again.
func (s *Supervisor) resumeAfterAbsence() {
	for t := range s.withFormer() {
		t.othersUnknown = true
	}
	for _, t := range s.ties {
		if t.LauncherGone == "" && !s.launcherAlive(t) {
			t.endUnseen = true
			s.handleLauncherEnd(t, "the agent has not observed its end", 0)
		}
		s.step(t, tie.AbsenceEnded{})
	}
}

// loadLauncherEnds takes the fence's observations of launchers from the store.
func (s *Supervisor) loadLauncherEnds() {
	stored, err := s.Store.Load()
	if err != nil {
		s.Logger.Warn("the agent cannot read all ties that the fence has stored", "error", err)
	}
	for _, seen := range stored {
		t := s.ties[seen.Launcher.Container.ID]
		if t == nil || t.LauncherGone != "" || !sameLauncherProcess(&t.Tie, &seen) {
			continue
		}
		t.AliveAt = max(t.AliveAt, seen.AliveAt)
		if seen.LauncherGone != "" && !s.launcherAlive(t) {
			s.step(t, tie.LauncherEnded{Proof: seen.LauncherGone, LastSeen: seen.LauncherGoneAt})
		}
	}
}

func sameLauncherProcess(a, b *tie.Tie) bool {
	if a.LauncherProcess == nil || b.LauncherProcess == nil {
		return false
	}
	return a.LauncherProcess.Same(*b.LauncherProcess)
}
