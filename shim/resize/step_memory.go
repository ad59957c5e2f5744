package resize

import (
	"context"
	"fmt"
	"time"
)

// RequestMemory sets the requested size of a virtio-mem device. The guest's size of the device
// confirms it. A rollback requests the old size, which the guest may refuse to release. If the
// guest released only a part, the rollback keeps the current size.
type RequestMemory struct {
	Alias     string        `json:"alias"`
	From      uint64        `json:"from"`
	To        uint64        `json:"to"`
	SizeLimit SizeLimit     `json:"room"` // applies to growth, also in a rollback
	Within    time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s RequestMemory) String() string {
	return fmt.Sprintf("resize memory device %s from %s to %s",
		s.Alias, formatBytes(s.From), formatBytes(s.To))
}

// Timeout implements Step.
func (s RequestMemory) Timeout() time.Duration { return s.Within }

func (RequestMemory) kind() kind { return kindRequestMemory }

func (s RequestMemory) checkStart(o Observed) error {
	d, ok := o.device(s.Alias)
	switch {
	case !ok:
		return fmt.Errorf("the domain no longer has memory device %s", s.Alias)
	case d.Current != s.From:
		return fmt.Errorf("memory device %s has %s, the plan expected %s",
			s.Alias, formatBytes(d.Current), formatBytes(s.From))
	}
	return nil
}

func (s RequestMemory) checkLimits(o Observed) error {
	if d, ok := o.device(s.Alias); ok && s.To > s.From {
		memory := o.PossibleMemory() - possibleSize(d) + s.To
		return s.SizeLimit.allows(o, memory, o.Domain.VCPUs.Plugged)
	}
	return nil
}

func (s RequestMemory) execute(ctx context.Context, h handles, _ Observed) error {
	return h.domain.RequestMemory(ctx, s.Alias, s.To)
}

func (s RequestMemory) verify(o Observed) error {
	d, ok := o.device(s.Alias)
	if !ok || d.Requested != s.To || d.Current != s.To {
		return fmt.Errorf("memory device %s has %s, requested are %s: want %s",
			s.Alias, formatBytes(d.Current), formatBytes(d.Requested), formatBytes(s.To))
	}
	return nil
}

func (s RequestMemory) remaining(o Observed) uint64 {
	d, _ := o.device(s.Alias)
	return distance(d.Current, s.To)
}

func (s RequestMemory) withdrawal(o Observed) Step {
	if d, ok := o.device(s.Alias); !ok || d.Current == d.Requested {
		return nil
	}
	return SettleMemory{Alias: s.Alias, Within: s.Within}
}

func (s RequestMemory) rollback(o Observed) Step {
	d, ok := o.device(s.Alias)
	switch {
	case !ok || d.Current == s.From && d.Requested == s.From:
		return nil
	case s.To < s.From && d.Current != s.To, d.Current == s.From:
		return SettleMemory{Alias: s.Alias, Within: s.Within}
	}
	return RequestMemory{
		Alias: s.Alias, From: d.Current, To: s.From, SizeLimit: s.SizeLimit, Within: s.Within,
	}
}

// SettleMemory requests the current size of a virtio-mem device, so that it neither grows nor
// shrinks. The guest's size of the device confirms it. It has no rollback: the earlier request is
// obsolete.
type SettleMemory struct {
	Alias  string        `json:"alias"`
	Within time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s SettleMemory) String() string {
	return fmt.Sprintf("keep memory device %s at its current size", s.Alias)
}

// Timeout implements Step.
func (s SettleMemory) Timeout() time.Duration { return s.Within }

func (SettleMemory) kind() kind { return kindSettleMemory }

func (s SettleMemory) checkStart(o Observed) error {
	if _, ok := o.device(s.Alias); !ok {
		return fmt.Errorf("the domain no longer has memory device %s", s.Alias)
	}
	return nil
}

func (s SettleMemory) execute(ctx context.Context, h handles, o Observed) error {
	d, _ := o.device(s.Alias)
	return h.domain.RequestMemory(ctx, s.Alias, d.Current)
}

func (s SettleMemory) verify(o Observed) error {
	if d, ok := o.device(s.Alias); !ok || d.Current != d.Requested {
		return fmt.Errorf("memory device %s has %s, requested are %s",
			s.Alias, formatBytes(d.Current), formatBytes(d.Requested))
	}
	return nil
}

func (SettleMemory) rollback(Observed) Step { return nil }
