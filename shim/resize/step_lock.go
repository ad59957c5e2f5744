package resize

import (
	"context"
	"fmt"
	"time"
)

// RaiseLock raises the memory lock of QEMU to what libvirt will want for the new
// domain: a libvirt in a container cannot raise it itself.
type RaiseLock struct {
	From  uint64        `json:"from"`
	To    uint64        `json:"to"`
	Bound time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s RaiseLock) String() string {
	return fmt.Sprintf("raise the memory lock of QEMU from %s to %s", show(s.From), show(s.To))
}

// Within implements Step.
func (s RaiseLock) Within() time.Duration { return s.Bound }

// ConfirmedBy implements Step.
func (RaiseLock) ConfirmedBy() string { return "the limit of the process, as the kernel shows it" }

// UndoneBy implements Step.
func (RaiseLock) UndoneBy() string {
	return "lowering it, not below what is locked, what libvirt wants, nor what the launcher was given"
}

func (RaiseLock) kind() kind { return kindRaiseLock }

func (s RaiseLock) do(ctx context.Context, h hands, _ Is) error { return h.node.RaiseLock(ctx, s.To) }

func (s RaiseLock) done(is Is) error {
	if is.Seen.Lock < s.To {
		return fmt.Errorf("the memory lock of QEMU is %s: want %s", show(is.Seen.Lock), show(s.To))
	}
	return nil
}

func (s RaiseLock) undo(is Is) Step {
	if is.Seen.Lock <= s.From {
		return nil
	}
	return LowerLock{From: is.Seen.Lock, To: s.From, Bound: s.Bound}
}

// LowerLock lowers the memory lock of QEMU, never below what it has locked, what
// libvirt wants for the domain as it then is, or what the launcher was given.
type LowerLock struct {
	From  uint64        `json:"from"`
	To    uint64        `json:"to"`
	Bound time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s LowerLock) String() string {
	return fmt.Sprintf("lower the memory lock of QEMU from %s to %s", show(s.From), show(s.To))
}

// Within implements Step.
func (s LowerLock) Within() time.Duration { return s.Bound }

// ConfirmedBy implements Step.
func (LowerLock) ConfirmedBy() string { return "the limit of the process, as the kernel shows it" }

// UndoneBy implements Step.
func (LowerLock) UndoneBy() string { return "left: it is raised when it is needed" }

func (LowerLock) kind() kind { return kindLowerLock }

func (s LowerLock) do(ctx context.Context, h hands, is Is) error {
	to, err := s.lowest(is)
	if err != nil {
		return err
	}
	return h.node.LowerLock(ctx, to)
}

// lowest is how low the lock may be.
func (s LowerLock) lowest(is Is) (uint64, error) {
	wants, err := is.LockWanted()
	return max(s.To, wants, is.Seen.Floor, is.Seen.Locked), err
}

func (s LowerLock) done(is Is) error {
	to, err := s.lowest(is)
	if err == nil && is.Seen.Lock > to {
		err = fmt.Errorf("the memory lock of QEMU is %s: want %s", show(is.Seen.Lock), show(to))
	}
	return err
}

func (LowerLock) undo(Is) Step { return nil }
