package host

import (
	"errors"
	"fmt"
)

// ErrLocked reports that a process has locked more than its new limit.
var ErrLocked = errors.New("more is locked")

// RaiseMemlock raises the memory-lock limit of a process to at least this value, and reads it back.
// Errors come from the kernel; [ErrGone]: the process has ended.
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
		err = fmt.Errorf("process %d may lock %s (hard %s) after its limit was set to %s: "+
			"another program sets it as well",
			p.PID, has.Soft, has.Hard, to)
	}
	return err
}

// LowerMemlock lowers the memory-lock limit of a process to at most this value, and reads it back.
// If the process has locked more, before or after, the error wraps [ErrLocked] and the process
// keeps its old limit.
func LowerMemlock(k Kernel, p Process, to Limit) error {
	has, err := k.Memlock(p)
	if err != nil || has.Soft <= to && has.Hard <= to {
		return err
	}
	if err := lockedWithin(k, p, to); err != nil {
		return err
	}
	if err := k.SetMemlock(p, Rlimit{Soft: min(has.Soft, to), Hard: min(has.Hard, to)}); err !=
		nil {
		return err
	}
	if err := lockedWithin(k, p, to); err != nil {
		return errors.Join(err, k.SetMemlock(p, has))
	}
	now, err := k.Memlock(p)
	if err == nil && now.Soft > to {
		err = fmt.Errorf("process %d may lock %s after its limit was set to %s: another program "+
			"sets it as well",
			p.PID, now.Soft, to)
	}
	return err
}

// lockedWithin returns an error if a process has locked more than the limit.
func lockedWithin(k Kernel, p Process, to Limit) error {
	locked, err := k.Locked(p)
	if err == nil && Limit(locked) > to {
		err = fmt.Errorf("the VM process has %s locked: %w than %s", Limit(locked), ErrLocked, to)
	}
	return err
}
