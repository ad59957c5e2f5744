package supervisor

import (
	"context"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// stall is how long a turn of Run can last before it is taken for an absence: the
// agent was stopped, or the node slept.
const stall = 10 * time.Second

// noticeStall looks after an absence at what has happened meanwhile.
func (s *Supervisor) noticeStall(ctx context.Context) {
	if away := s.Clock.Now().Sub(s.turn); away > stall {
		s.Logger.Warn("nothing was supervised for a while", "for", away)
		s.resume(ctx)
	}
	s.turn = s.Clock.Now()
}

// resume begins to expect heartbeats anew, because nobody could see any, or give any.
func (s *Supervisor) resume(ctx context.Context) {
	if s.AfterAbsence != nil {
		s.AfterAbsence(ctx)
		s.learnEnds()
	}
	for _, t := range s.ties {
		t.doubtful = true
		if t.OwnerGone == "" && !s.ownerLives(t) {
			t.blind = true
			s.ownerEnded(t, "nobody watched", 0)
		}
		s.step(t, tie.Resumed{})
	}
}

// learnEnds takes from the store what who stood in has seen of the owners.
func (s *Supervisor) learnEnds() {
	stored, err := s.Store.Load()
	if err != nil {
		s.Logger.Warn("not everything is known of what was done meanwhile", "error", err)
	}
	for _, seen := range stored {
		t := s.ties[seen.Launcher.Container.ID]
		if t == nil || t.OwnerGone != "" || t.Owner == nil || seen.Owner == nil || !t.Owner.Same(*seen.Owner) {
			continue
		}
		t.AliveAt = max(t.AliveAt, seen.AliveAt)
		if seen.OwnerGone != "" && !s.ownerLives(t) {
			s.step(t, tie.OwnerEnded{Proof: seen.OwnerGone, LastSeen: seen.OwnerGoneAt})
		}
	}
}
