package memlock

import (
	"fmt"
	"strings"

	"github.com/mooring-vm/mooring/api"
)

// Verdict is the kind of a [Result].
type Verdict string

// The verdicts.
const (
	VerdictNone      Verdict = "none needed" // the VM needs no limit of its own
	VerdictLimit     Verdict = "limit"       // the VM needs the limit
	VerdictUnlimited Verdict = "unlimited"   // the VM needs an infinite limit
	VerdictUnknown   Verdict = "unknown"     // an input is missing; the limit is a lower bound
)

// Verdict returns the kind of the result. More input cannot raise an infinite limit, so that one is
// never unknown.
func (r Result) Verdict() Verdict {
	switch {
	case r.Unlimited:
		return VerdictUnlimited
	case len(r.Unknown) > 0:
		return VerdictUnknown
	case r.Required:
		return VerdictLimit
	}
	return VerdictNone
}

// String returns the answer for people: the verdict with its limit. An unknown one names each
// missing input. Every program prints a result in these words.
func (r Result) String() string {
	switch r.Verdict() {
	case VerdictUnlimited:
		return api.Unlimited
	case VerdictLimit:
		return quantity(r.Bytes)
	case VerdictUnknown:
		least := ""
		if r.Required {
			least = ", at least " + quantity(r.Bytes)
		}
		return fmt.Sprintf("%s%s, because %s", VerdictUnknown, least,
			strings.Join(r.Unknown, "; "))
	}
	return string(VerdictNone)
}

// quantity writes bytes as "5Gi (5368709120 bytes)", or "5368709121 bytes (5.00 GiB)".
func quantity(n int64) string {
	bytes := fmt.Sprintf("%d bytes", n)
	if text := api.Bytes(n).String(); text != fmt.Sprint(n) {
		return fmt.Sprintf("%s (%s)", text, bytes)
	}
	return fmt.Sprintf("%s (%.2f GiB)", bytes, float64(n)/(1<<30))
}
