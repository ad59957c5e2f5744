package podapi

import (
	"errors"
	"fmt"
	"time"
)

// MaxHold is the longest hold, that of the longest lease.
const MaxHold = time.Hour

// Check returns an error unless exactly one field is set.
func (l Lock) Check() error {
	if (l.AtLeast == nil) == (l.AtMost == nil) {
		return errors.New("want one of atLeast and atMost")
	}
	return nil
}

// Check returns an error that names the field, its value and what is allowed.
func (n Need) Check() error {
	if n.Bytes == nil {
		return errors.New("bytes: absent: want a number of bytes, 0 for no need")
	}
	if *n.Bytes == Unlimited {
		return fmt.Errorf("bytes: %s: want a number of bytes", *n.Bytes)
	}
	return nil
}

// Check returns an error that names the field, its value and what is allowed.
func (h Hold) Check() error {
	if most := int64(MaxHold / time.Second); h.Seconds < 1 || h.Seconds > most {
		return fmt.Errorf("seconds: %d: want 1 to %d", h.Seconds, most)
	}
	return nil
}

// Period is how long the hold is to last.
func (h Hold) Period() time.Duration { return time.Duration(h.Seconds) * time.Second }
