package resize

import (
	"context"
	"fmt"
	"time"
)

// SetBalloon sets the memory that the balloon leaves to the guest. The memory that the balloon
// driver reports confirms it. A rollback restores the old value. If the guest gave only a part of
// the memory, the rollback keeps the current value.
type SetBalloon struct {
	From      uint64        `json:"from"`
	To        uint64        `json:"to"`
	SizeLimit SizeLimit     `json:"room"` // applies if the guest gets memory, also in a rollback
	Within    time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s SetBalloon) String() string {
	if stopsBalloon(s) {
		return fmt.Sprintf("keep the balloon at %s for the guest", formatBytes(s.To))
	}
	return fmt.Sprintf("change the balloon from %s to %s for the guest",
		formatBytes(s.From), formatBytes(s.To))
}

// Timeout implements Step.
func (s SetBalloon) Timeout() time.Duration { return s.Within }

func (SetBalloon) kind() kind { return kindSetBalloon }

// checkLimits also checks a step that keeps the memory of a shrinking guest. The guest may have
// given more memory since the last observation.
func (s SetBalloon) checkLimits(o Observed) error {
	if s.To >= s.From {
		memory := o.PossibleMemory() - o.GuestMemory() + s.To
		return s.SizeLimit.allows(o, memory, o.Domain.VCPUs.Plugged)
	}
	return nil
}

func (s SetBalloon) execute(ctx context.Context, h handles, _ Observed) error {
	return h.domain.SetBalloon(ctx, s.To)
}

func (s SetBalloon) verify(o Observed) error {
	if memory := o.GuestMemory(); memory != s.To {
		return fmt.Errorf("the balloon leaves %s to the guest: want %s",
			formatBytes(memory), formatBytes(s.To))
	}
	return nil
}

func (s SetBalloon) remaining(o Observed) uint64 { return distance(o.GuestMemory(), s.To) }

func (s SetBalloon) withdrawal(o Observed) Step {
	memory := o.GuestMemory()
	return SetBalloon{From: memory, To: memory, SizeLimit: s.SizeLimit, Within: s.Within}
}

func (s SetBalloon) rollback(o Observed) Step {
	memory := o.GuestMemory()
	back := SetBalloon{From: memory, To: s.From, SizeLimit: s.SizeLimit, Within: s.Within}
	switch {
	case s.To > s.From:
		back.SizeLimit = SizeLimit{} // shrinking fits under any limit
	case memory != s.To:
		back.To = memory
	}
	return back
}
