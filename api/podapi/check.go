package podapi

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// MaxHold is the longest hold. It equals the longest lease of `mooring lease`.
const MaxHold = time.Hour

// Bounds of a lease of the pod. The pod can extend it while the launcher runs.
const (
	MaxLease  = 10 * time.Minute
	MaxReason = 200 // bytes
)

// Check returns an error unless exactly one field is set.
func (l Lock) Check() error {
	if (l.AtLeast == nil) == (l.AtMost == nil) {
		return errors.New("want one of atLeast and atMost")
	}
	return nil
}

// Check returns an error with the field, its value and the allowed values.
func (n MemoryRequirement) Check() error {
	if n.Bytes == nil {
		return errors.New("bytes: absent: want a number of bytes, 0 for no requirement")
	}
	if *n.Bytes == Unlimited {
		return fmt.Errorf("bytes: %s: want a number of bytes", *n.Bytes)
	}
	return nil
}

// Check returns an error with the field, its value and the allowed values.
func (h Hold) Check() error {
	if most := int64(MaxHold / time.Second); h.Seconds < 1 || h.Seconds > most {
		return fmt.Errorf("seconds: %d: want 1 to %d", h.Seconds, most)
	}
	return nil
}

// Period returns the duration of the hold.
func (h Hold) Period() time.Duration { return time.Duration(h.Seconds) * time.Second }

// Check returns an error with the field, its value and the allowed values.
func (l Lease) Check() error {
	if most := int64(MaxLease / time.Second); l.Seconds < 1 || l.Seconds > most {
		return fmt.Errorf("seconds: %d: want 1 to %d", l.Seconds, most)
	}
	if len(l.Reason) > MaxReason {
		return fmt.Errorf("reason: %d bytes: want at most %d", len(l.Reason), MaxReason)
	}
	if strings.TrimSpace(l.Reason) == "" {
		return fmt.Errorf("reason: %q: want one line of text with the purpose of the lease",
			l.Reason)
	}
	return checkTexts("reason", []string{l.Reason})
}

// Period returns the duration of the lease.
func (l Lease) Period() time.Duration { return time.Duration(l.Seconds) * time.Second }
