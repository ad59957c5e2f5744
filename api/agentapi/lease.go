package agentapi

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of a lease. Without an upper bound a VM could outlive its pod for ever.
const (
	MinLease       = time.Second
	MaxLease       = time.Hour
	MaxLeaseReason = 200 // bytes
)

// LeaseRequest asks for a [Lease]: the body of a PUT.
type LeaseRequest struct {
	Seconds int64  `json:"seconds"`
	Reason  string `json:"reason"` // purpose of the lease, one line of text for people
}

// Period returns the duration of the lease.
func (r LeaseRequest) Period() time.Duration { return time.Duration(r.Seconds) * time.Second }

// Check returns an error with the field, its value and the allowed values.
func (r LeaseRequest) Check() error {
	const least, most = int64(MinLease / time.Second), int64(MaxLease / time.Second)
	if r.Seconds < least || r.Seconds > most {
		return fmt.Errorf("seconds: %d: want %d to %d", r.Seconds, least, most)
	}
	if len(r.Reason) > MaxLeaseReason {
		return fmt.Errorf("reason: %d bytes: want at most %d", len(r.Reason), MaxLeaseReason)
	}
	if !isLine(r.Reason) {
		return fmt.Errorf("reason: %q: want one line of text with the purpose of the lease",
			r.Reason)
	}
	return nil
}

// isLine reports whether s is one printable line.
func isLine(s string) bool {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	return utf8.ValidString(s) && strings.TrimSpace(s) != "" &&
		!strings.ContainsFunc(s, unprintable)
}
