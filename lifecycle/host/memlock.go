package host

import (
	"errors"
	"fmt"
)

// ErrLocked says that a process has more locked than its limit was to become.
var ErrLocked = errors.New("more is locked")

// RaiseMemlock sees to it that a process may lock so much, and reads it back. What is
// higher is left alone. The errors are the kernel's; [ErrGone]: the process has ended.
func RaiseMemlock(k Kernel, p Process, to Limit) error {
	has, err := k.Memlock(p)
	if err != nil || has.Covers(to) {
		return err
	}
	if err := k.SetMemlock(p, has.Raised(to)); err != nil {
		return err
	}
	has, err = k.Memlock(p)
	if err == nil && !has.Covers(to) {
		err = fmt.Errorf("process %d may lock %s (hard %s) after its limit was set to %s: somebody else sets it, too", p.PID, has.Soft, has.Hard, to)
	}
	return err
}

// LowerMemlock takes from a process what it may lock beyond to, and reads it back. What
// is lower is left alone. The error wraps [ErrLocked] if it has more locked, before or
// after: then it keeps the limit that it had.
func LowerMemlock(k Kernel, p Process, to Limit) error {
	has, err := k.Memlock(p)
	if err != nil || has.Soft <= to && has.Hard <= to {
		return err
	}
	if err := lockedWithin(k, p, to); err != nil {
		return err
	}
	if err := k.SetMemlock(p, Rlimit{Soft: min(has.Soft, to), Hard: min(has.Hard, to)}); err != nil {
		return err
	}
	if err := lockedWithin(k, p, to); err != nil {
		return errors.Join(err, k.SetMemlock(p, has))
	}
	now, err := k.Memlock(p)
	if err == nil && now.Soft > to {
		err = fmt.Errorf("process %d may lock %s after its limit was set to %s: somebody else sets it, too", p.PID, now.Soft, to)
	}
	return err
}

// lockedWithin returns an error if a process has more locked than that.
func lockedWithin(k Kernel, p Process, to Limit) error {
	locked, err := k.Locked(p)
	if err == nil && Limit(locked) > to {
		err = fmt.Errorf("the VM process has %s locked: %w than %s", Limit(locked), ErrLocked, to)
	}
	return err
}
