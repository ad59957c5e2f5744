package resize

import (
	"context"
	"fmt"
	"time"
)

// RaiseLock raises the memory lock of QEMU to what libvirt will want for the new
// domain: a libvirt in a container cannot raise it itself.
type RaiseLock struct {
	From   uint64        `json:"from"`
	To     uint64        `json:"to"`
	Within time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s RaiseLock) String() string {
	return fmt.Sprintf("raise the memory lock of QEMU from %s to %s", formatBytes(s.From), formatBytes(s.To))
}

// Within implements Step.
func (s RaiseLock) Timeout() time.Duration { return s.Within }

// ConfirmedBy implements Step.
func (RaiseLock) ConfirmedBy() string { return "the limit of the process, as the kernel shows it" }

// UndoneBy implements Step.
func (RaiseLock) RollbackMethod() string {
	return "lowering it, not below what is locked, what libvirt wants, nor what the launcher was given"
}

func (RaiseLock) kind() kind { return kindRaiseLock }

func (s RaiseLock) execute(ctx context.Context, h handles, _ Observed) error {
	return h.node.RaiseLock(ctx, s.To)
}

func (s RaiseLock) verify(o Observed) error {
	if o.Limits.Lock < s.To {
		return fmt.Errorf("the memory lock of QEMU is %s: want %s", formatBytes(o.Limits.Lock), formatBytes(s.To))
	}
	return nil
}

func (s RaiseLock) rollback(o Observed) Step {
	if o.Limits.Lock <= s.From {
		return nil
	}
	return LowerLock{From: o.Limits.Lock, To: s.From, Within: s.Within}
}

// LowerLock lowers the memory lock of QEMU, never below what it has locked, what
// libvirt wants for the domain as it then is, or what the launcher was given.
type LowerLock struct {
	From   uint64        `json:"from"`
	To     uint64        `json:"to"`
	Within time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s LowerLock) String() string {
	return fmt.Sprintf("lower the memory lock of QEMU from %s to %s", formatBytes(s.From), formatBytes(s.To))
}

// Within implements Step.
func (s LowerLock) Timeout() time.Duration { return s.Within }

// ConfirmedBy implements Step.
func (LowerLock) ConfirmedBy() string { return "the limit of the process, as the kernel shows it" }

// UndoneBy implements Step.
func (LowerLock) RollbackMethod() string { return "left: it is raised when it is needed" }

func (LowerLock) kind() kind { return kindLowerLock }

func (s LowerLock) execute(ctx context.Context, h handles, o Observed) error {
	to, err := s.lowestAllowed(o)
	if err != nil {
		return err
	}
	return h.node.LowerLock(ctx, to)
}

// lowest is how low the lock may be.
func (s LowerLock) lowestAllowed(o Observed) (uint64, error) {
	wants, err := o.RequiredLock()
	return max(s.To, wants, o.Limits.Floor, o.Limits.Locked), err
}

func (s LowerLock) verify(o Observed) error {
	to, err := s.lowestAllowed(o)
	if err == nil && o.Limits.Lock > to {
		err = fmt.Errorf("the memory lock of QEMU is %s: want %s", formatBytes(o.Limits.Lock), formatBytes(to))
	}
	return err
}

func (LowerLock) rollback(Observed) Step { return nil }
