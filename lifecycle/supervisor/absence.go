package supervisor

import (
	"context"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// absenceAfter is how long a turn of Run can last before it is taken for an absence: the
// agent was stopped, or the node slept.
const absenceAfter = 10 * time.Second

// detectAbsence looks after an absence at what has happened meanwhile.
func (s *Supervisor) detectAbsence(ctx context.Context) {
	if away := s.Clock.Now().Sub(s.lastTurn); away > absenceAfter {
		s.Logger.Warn("nothing was supervised for a while", "for", away)
		s.resumeAfterAbsence(ctx)
	}
	s.lastTurn = s.Clock.Now()
}

// resumeAfterAbsence begins to expect heartbeats anew, because nobody could see any, or give any.
func (s *Supervisor) resumeAfterAbsence(ctx context.Context) {
	if s.AfterAbsence != nil {
		s.AfterAbsence(ctx)
		s.loadLauncherEnds()
	}
	for _, t := range s.ties {
		t.othersUnknown = true
		if t.LauncherGone == "" && !s.launcherAlive(t) {
			t.endUnseen = true
			s.handleLauncherEnd(t, "nobody watched", 0)
		}
		s.step(t, tie.AbsenceEnded{})
	}
}

// loadLauncherEnds takes from the store what who stood in has seen of the owners.
func (s *Supervisor) loadLauncherEnds() {
	stored, err := s.Store.Load()
	if err != nil {
		s.Logger.Warn("not everything is known of what was done meanwhile", "error", err)
	}
	for _, seen := range stored {
		t := s.ties[seen.Launcher.Container.ID]
		if t == nil || t.LauncherGone != "" || t.LauncherProcess == nil || seen.LauncherProcess == nil || !t.LauncherProcess.Same(*seen.LauncherProcess) {
			continue
		}
		t.AliveAt = max(t.AliveAt, seen.AliveAt)
		if seen.LauncherGone != "" && !s.launcherAlive(t) {
			s.step(t, tie.LauncherEnded{Proof: seen.LauncherGone, LastSeen: seen.LauncherGoneAt})
		}
	}
}
