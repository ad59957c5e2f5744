package resize

import (
	"context"
	"fmt"
	"time"
)

// SetBalloon tells the balloon how much memory to leave to the guest.
type SetBalloon struct {
	From      uint64        `json:"from"`
	To        uint64        `json:"to"`
	SizeLimit SizeLimit     `json:"room"` // for leaving more, or leaving it again
	Within    time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s SetBalloon) String() string {
	if stopsBalloon(s) {
		return fmt.Sprintf("let the balloon leave the %s to the guest that it leaves", formatBytes(s.To))
	}
	return fmt.Sprintf("let the balloon leave %s instead of %s to the guest", formatBytes(s.To), formatBytes(s.From))
}

// Within implements Step.
func (s SetBalloon) Timeout() time.Duration { return s.Within }

// ConfirmedBy implements Step.
func (SetBalloon) ConfirmedBy() string { return "what the guest's balloon driver has done" }

// UndoneBy implements Step.
func (SetBalloon) RollbackMethod() string {
	return "letting the balloon leave what it left; if it got only a part, what it leaves now"
}

func (SetBalloon) kind() kind { return kindSetBalloon }

// room looks at limits also where a guest that was giving memory is to keep what it had at the
// last look: it may have given more since.
func (s SetBalloon) checkLimits(o Observed) error {
	if s.To >= s.From {
		return s.SizeLimit.allows(o, o.PossibleMemory()-o.GuestMemory()+s.To, o.Domain.VCPUs.Plugged)
	}
	return nil
}

func (s SetBalloon) execute(ctx context.Context, h handles, _ Observed) error {
	return h.domain.SetBalloon(ctx, s.To)
}

func (s SetBalloon) verify(o Observed) error {
	if now := o.GuestMemory(); now != s.To {
		return fmt.Errorf("the balloon leaves %s to the guest: want %s", formatBytes(now), formatBytes(s.To))
	}
	return nil
}

func (s SetBalloon) rollback(o Observed) Step {
	now := o.GuestMemory()
	back := SetBalloon{From: now, To: s.From, SizeLimit: s.SizeLimit, Within: s.Within}
	switch {
	case s.To > s.From:
		back.SizeLimit = SizeLimit{} // to take no more fits under any limit
	case now != s.To:
		back.To = now
	}
	return back
}
