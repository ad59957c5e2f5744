package resize

import (
	"context"
	"fmt"
	"time"
)

// RequestMemory asks the guest to take or give memory of a virtio-mem device.
type RequestMemory struct {
	Alias     string        `json:"alias"`
	From      uint64        `json:"from"`
	To        uint64        `json:"to"`
	SizeLimit SizeLimit     `json:"room"` // for what it is to take, or to take back
	Within    time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s RequestMemory) String() string {
	return fmt.Sprintf("ask the guest to have %s instead of %s of its device %s", formatBytes(s.To), formatBytes(s.From), s.Alias)
}

// Within implements Step.
func (s RequestMemory) Timeout() time.Duration { return s.Within }

// ConfirmedBy implements Step.
func (RequestMemory) ConfirmedBy() string { return "what the guest has of the device" }

// UndoneBy implements Step.
func (s RequestMemory) RollbackMethod() string {
	if s.To < s.From {
		return "asking the guest to take it again; if it gave only a part, by asking for no more"
	}
	return "asking the guest to give it back, which it may refuse"
}

func (RequestMemory) kind() kind { return kindRequestMemory }

func (s RequestMemory) checkStart(o Observed) error {
	d, ok := o.device(s.Alias)
	switch {
	case !ok:
		return fmt.Errorf("the domain has no memory device %s any more", s.Alias)
	case d.Current != s.From:
		return fmt.Errorf("the guest has %s of its device %s, and had %s when it was planned", formatBytes(d.Current), s.Alias, formatBytes(s.From))
	}
	return nil
}

func (s RequestMemory) checkLimits(o Observed) error {
	if d, ok := o.device(s.Alias); ok && s.To > s.From {
		return s.SizeLimit.allows(o, o.PossibleMemory()-possibleSize(d)+s.To, o.Domain.VCPUs.Plugged)
	}
	return nil
}

func (s RequestMemory) execute(ctx context.Context, h handles, _ Observed) error {
	return h.domain.RequestMemory(ctx, s.Alias, s.To)
}

func (s RequestMemory) verify(o Observed) error {
	d, ok := o.device(s.Alias)
	if !ok || d.Requested != s.To || d.Current != s.To {
		return fmt.Errorf("the guest has %s of its device %s and was asked to have %s: want %s",
			formatBytes(d.Current), s.Alias, formatBytes(d.Requested), formatBytes(s.To))
	}
	return nil
}

func (s RequestMemory) rollback(o Observed) Step {
	d, ok := o.device(s.Alias)
	switch {
	case !ok || d.Current == s.From && d.Requested == s.From:
		return nil
	case s.To < s.From && d.Current != s.To, d.Current == s.From:
		return SettleMemory{Alias: s.Alias, Within: s.Within}
	}
	return RequestMemory{Alias: s.Alias, From: d.Current, To: s.From, SizeLimit: s.SizeLimit, Within: s.Within}
}

// SettleMemory asks the guest to have what it has of a virtio-mem device, so that it
// neither takes nor gives more of it.
type SettleMemory struct {
	Alias  string        `json:"alias"`
	Within time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s SettleMemory) String() string {
	return fmt.Sprintf("ask the guest to keep what it has of its device %s", s.Alias)
}

// Within implements Step.
func (s SettleMemory) Timeout() time.Duration { return s.Within }

// ConfirmedBy implements Step.
func (SettleMemory) ConfirmedBy() string { return "what the guest has of the device" }

// UndoneBy implements Step.
func (SettleMemory) RollbackMethod() string {
	return "left: what was asked for before is not wanted any more"
}

func (SettleMemory) kind() kind { return kindSettleMemory }

func (s SettleMemory) checkStart(o Observed) error {
	if _, ok := o.device(s.Alias); !ok {
		return fmt.Errorf("the domain has no memory device %s any more", s.Alias)
	}
	return nil
}

func (s SettleMemory) execute(ctx context.Context, h handles, o Observed) error {
	d, _ := o.device(s.Alias)
	return h.domain.RequestMemory(ctx, s.Alias, d.Current)
}

func (s SettleMemory) verify(o Observed) error {
	if d, ok := o.device(s.Alias); !ok || d.Current != d.Requested {
		return fmt.Errorf("the guest has %s of its device %s and was asked to have %s", formatBytes(d.Current), s.Alias, formatBytes(d.Requested))
	}
	return nil
}

func (SettleMemory) rollback(Observed) Step { return nil }
