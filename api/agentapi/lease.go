package agentapi

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of a lease. One that never ends would be a VM that outlives its pod.
const (
	MinLease       = time.Second
	MaxLease       = time.Hour
	MaxLeaseReason = 200 // bytes
)

// LeaseRequest asks for a [Lease]: the body of a PUT.
type LeaseRequest struct {
	Seconds int64  `json:"seconds"`
	Reason  string `json:"reason"` // what it is for, in one line; it is shown to people
}

// Period is how long the lease is to hold.
func (r LeaseRequest) Period() time.Duration { return time.Duration(r.Seconds) * time.Second }

// Check returns an error that names the field, its value and what is allowed.
func (r LeaseRequest) Check() error {
	const least, most = int64(MinLease / time.Second), int64(MaxLease / time.Second)
	if r.Seconds < least || r.Seconds > most {
		return fmt.Errorf("seconds: %d: want %d to %d", r.Seconds, least, most)
	}
	if len(r.Reason) > MaxLeaseReason {
		return fmt.Errorf("reason: %d bytes: want at most %d", len(r.Reason), MaxLeaseReason)
	}
	if !isLine(r.Reason) {
		return fmt.Errorf("reason: %q: want one line of text that says what the lease is for", r.Reason)
	}
	return nil
}

// isLine reports whether s is text to be shown in one line.
func isLine(s string) bool {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	return utf8.ValidString(s) && strings.TrimSpace(s) != "" && !strings.ContainsFunc(s, unprintable)
}
