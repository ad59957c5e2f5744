package resize

import (
	"context"
	"fmt"
	"time"
)

// RaiseLock raises QEMU's memory-lock limit to libvirt's requirement for the new domain, because a
// libvirt in a container cannot raise it. The kernel's limit of the process confirms it. A rollback
// lowers it again, under the conditions of [LowerLock].
type RaiseLock struct {
	From   uint64        `json:"from"`
	To     uint64        `json:"to"`
	Within time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s RaiseLock) String() string {
	return fmt.Sprintf("raise QEMU's memory-lock limit from %s to %s",
		formatBytes(s.From), formatBytes(s.To))
}

// Timeout implements Step.
func (s RaiseLock) Timeout() time.Duration { return s.Within }

func (RaiseLock) kind() kind { return kindRaiseLock }

func (s RaiseLock) execute(ctx context.Context, h handles, _ Observed) error {
	return h.node.RaiseLock(ctx, s.To)
}

func (s RaiseLock) verify(o Observed) error {
	if o.Limits.Lock < s.To {
		return fmt.Errorf("QEMU's memory-lock limit is %s: want at least %s",
			formatBytes(o.Limits.Lock), formatBytes(s.To))
	}
	return nil
}

func (s RaiseLock) rollback(o Observed) Step {
	if o.Limits.Lock <= s.From {
		return nil
	}
	return LowerLock{From: o.Limits.Lock, To: s.From, Within: s.Within}
}

// LowerLock lowers QEMU's memory-lock limit. It never goes below the locked memory, libvirt's
// requirement for the current domain, or the launcher's own limit. The kernel's limit of the
// process confirms it. It has no rollback: the next [RaiseLock] raises the limit when necessary.
type LowerLock struct {
	From   uint64        `json:"from"`
	To     uint64        `json:"to"`
	Within time.Duration `json:"bound"`
}

// String implements fmt.Stringer.
func (s LowerLock) String() string {
	return fmt.Sprintf("lower QEMU's memory-lock limit from %s to %s",
		formatBytes(s.From), formatBytes(s.To))
}

// Timeout implements Step.
func (s LowerLock) Timeout() time.Duration { return s.Within }

func (LowerLock) kind() kind { return kindLowerLock }

func (s LowerLock) execute(ctx context.Context, h handles, o Observed) error {
	to, err := s.lowestAllowed(o)
	if err != nil {
		return err
	}
	return h.node.LowerLock(ctx, to)
}

func (s LowerLock) lowestAllowed(o Observed) (uint64, error) {
	required, err := o.RequiredLock()
	return max(s.To, required, o.Limits.Floor, o.Limits.Locked), err
}

func (s LowerLock) verify(o Observed) error {
	to, err := s.lowestAllowed(o)
	if err == nil && o.Limits.Lock > to {
		err = fmt.Errorf("QEMU's memory-lock limit is %s: want at most %s",
			formatBytes(o.Limits.Lock), formatBytes(to))
	}
	return err
}

func (LowerLock) rollback(Observed) Step { return nil }
