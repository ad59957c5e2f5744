package resize

import (
	"context"
	"fmt"
	"time"
)

// SetBalloon tells the balloon how much memory to leave to the guest.
type SetBalloon struct {
	From  uint64        `json:"from"`
	To    uint64        `json:"to"`
	Room  Room          `json:"room"` // for leaving more, or leaving it again
	Bound time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s SetBalloon) String() string {
	if stops(s) {
		return fmt.Sprintf("let the balloon leave the %s to the guest that it leaves", show(s.To))
	}
	return fmt.Sprintf("let the balloon leave %s instead of %s to the guest", show(s.To), show(s.From))
}

// Within implements Step.
func (s SetBalloon) Within() time.Duration { return s.Bound }

// ConfirmedBy implements Step.
func (SetBalloon) ConfirmedBy() string { return "what the guest's balloon driver has done" }

// UndoneBy implements Step.
func (SetBalloon) UndoneBy() string {
	return "letting the balloon leave what it left; if it got only a part, what it leaves now"
}

func (SetBalloon) kind() kind { return kindSetBalloon }

// room looks at limits also where a guest that was giving memory is to keep what it had at the
// last look: it may have given more since.
func (s SetBalloon) room(is Is) error {
	if s.To >= s.From {
		return s.Room.check(is, is.Possible()-is.Guest()+s.To, is.Domain.VCPUs.Plugged)
	}
	return nil
}

func (s SetBalloon) do(ctx context.Context, h hands, _ Is) error {
	return h.domain.SetBalloon(ctx, s.To)
}

func (s SetBalloon) done(is Is) error {
	if now := is.Guest(); now != s.To {
		return fmt.Errorf("the balloon leaves %s to the guest: want %s", show(now), show(s.To))
	}
	return nil
}

func (s SetBalloon) undo(is Is) Step {
	now := is.Guest()
	back := SetBalloon{From: now, To: s.From, Room: s.Room, Bound: s.Bound}
	switch {
	case s.To > s.From:
		back.Room = Room{} // to take no more fits under any limit
	case now != s.To:
		back.To = now
	}
	return back
}
