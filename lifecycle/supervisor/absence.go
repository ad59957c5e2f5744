package supervisor

import (
	"context"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// absenceAfter is the longest turn of Run that is no absence. In a longer one the agent was
// stopped, or the node slept.
const absenceAfter = 10 * time.Second

// detectAbsence resumes after an absence.
func (s *Supervisor) detectAbsence(ctx context.Context) {
	if away := s.Clock.Now().Sub(s.lastTurn); away > absenceAfter {
		s.Logger.Warn("the supervisor was stopped for a while and resumes", "for", away)
		s.resumeAfterAbsence(ctx)
	} else {
		s.excuseStall(away)
	}
	s.lastTurn = s.Clock.Now()
}

// excuseStall gives a heartbeat its whole time again after a turn that took a notable part of its
// watchdog. In a freeze of the node the launcher could not send one.
func (s *Supervisor) excuseStall(turn time.Duration) {
	for _, t := range s.ties {
		if w := t.Terms.Watchdog; w > 0 && turn > max(w/4, 2*aliveInterval) {
			s.step(t, tie.AbsenceEnded{})
		}
	}
}

// resumeAfterAbsence waits for the fence, finds launchers that have ended, and gives each heartbeat
// its whole time again.
func (s *Supervisor) resumeAfterAbsence(ctx context.Context) {
	if s.AfterAbsence != nil {
		s.AfterAbsence(ctx)
		s.loadLauncherEnds()
	}
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
