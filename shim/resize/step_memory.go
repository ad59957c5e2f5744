package resize

import (
	"context"
	"fmt"
	"time"
)

// RequestMemory asks the guest to take or give memory of a virtio-mem device.
type RequestMemory struct {
	Alias string        `json:"alias"`
	From  uint64        `json:"from"`
	To    uint64        `json:"to"`
	Room  Room          `json:"room"` // for what it is to take, or to take back
	Bound time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s RequestMemory) String() string {
	return fmt.Sprintf("ask the guest to have %s instead of %s of its device %s", show(s.To), show(s.From), s.Alias)
}

// Within implements Step.
func (s RequestMemory) Within() time.Duration { return s.Bound }

// ConfirmedBy implements Step.
func (RequestMemory) ConfirmedBy() string { return "what the guest has of the device" }

// UndoneBy implements Step.
func (s RequestMemory) UndoneBy() string {
	if s.To < s.From {
		return "asking the guest to take it again; if it gave only a part, by asking for no more"
	}
	return "asking the guest to give it back, which it may refuse"
}

func (RequestMemory) kind() kind { return kindRequestMemory }

func (s RequestMemory) check(is Is) error {
	d, ok := is.device(s.Alias)
	switch {
	case !ok:
		return fmt.Errorf("the domain has no memory device %s any more", s.Alias)
	case d.Current != s.From:
		return fmt.Errorf("the guest has %s of its device %s, and had %s when it was planned", show(d.Current), s.Alias, show(s.From))
	}
	return nil
}

func (s RequestMemory) room(is Is) error {
	if d, ok := is.device(s.Alias); ok && s.To > s.From {
		return s.Room.check(is, is.Possible()-atMost(d)+s.To, is.Domain.VCPUs.Plugged)
	}
	return nil
}

func (s RequestMemory) do(ctx context.Context, h hands, _ Is) error {
	return h.domain.RequestMemory(ctx, s.Alias, s.To)
}

func (s RequestMemory) done(is Is) error {
	d, ok := is.device(s.Alias)
	if !ok || d.Requested != s.To || d.Current != s.To {
		return fmt.Errorf("the guest has %s of its device %s and was asked to have %s: want %s",
			show(d.Current), s.Alias, show(d.Requested), show(s.To))
	}
	return nil
}

func (s RequestMemory) undo(is Is) Step {
	d, ok := is.device(s.Alias)
	switch {
	case !ok || d.Current == s.From && d.Requested == s.From:
		return nil
	case s.To < s.From && d.Current != s.To, d.Current == s.From:
		return SettleMemory{Alias: s.Alias, Bound: s.Bound}
	}
	return RequestMemory{Alias: s.Alias, From: d.Current, To: s.From, Room: s.Room, Bound: s.Bound}
}

// SettleMemory asks the guest to have what it has of a virtio-mem device, so that it
// neither takes nor gives more of it.
type SettleMemory struct {
	Alias string        `json:"alias"`
	Bound time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s SettleMemory) String() string {
	return fmt.Sprintf("ask the guest to keep what it has of its device %s", s.Alias)
}

// Within implements Step.
func (s SettleMemory) Within() time.Duration { return s.Bound }

// ConfirmedBy implements Step.
func (SettleMemory) ConfirmedBy() string { return "what the guest has of the device" }

// UndoneBy implements Step.
func (SettleMemory) UndoneBy() string {
	return "left: what was asked for before is not wanted any more"
}

func (SettleMemory) kind() kind { return kindSettleMemory }

func (s SettleMemory) check(is Is) error {
	if _, ok := is.device(s.Alias); !ok {
		return fmt.Errorf("the domain has no memory device %s any more", s.Alias)
	}
	return nil
}

func (s SettleMemory) do(ctx context.Context, h hands, is Is) error {
	d, _ := is.device(s.Alias)
	return h.domain.RequestMemory(ctx, s.Alias, d.Current)
}

func (s SettleMemory) done(is Is) error {
	if d, ok := is.device(s.Alias); !ok || d.Current != d.Requested {
		return fmt.Errorf("the guest has %s of its device %s and was asked to have %s", show(d.Current), s.Alias, show(d.Requested))
	}
	return nil
}

func (SettleMemory) undo(Is) Step { return nil }
