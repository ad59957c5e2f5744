package resize

import (
	"fmt"
	"strings"
)

// Code is the kind of a reason to refuse a resize.
type Code string

// The kinds of reasons.
const (
	AboveMaximum Code = "above-maximum" // of the domain
	Alignment    Code = "alignment"     // no device can make exactly that size
	NoSlot       Code = "no-slot"
	NotPrepared  Code = "not-prepared" // the domain has no headroom
	NoCell       Code = "no-cell"      // no NUMA cell for a DIMM
	BelowBoot    Code = "below-boot"   // less than the guest booted with
	Migrating    Code = "migrating"
	NotRunning   Code = "not-running"
	Forbidden    Code = "policy"
	NoNodeMemory Code = "no-room" // on the node
	NoBandwidth  Code = "no-bandwidth"
	NoShares     Code = "no-shares"
	NoLock       Code = "no-lock"    // libvirt's memory lock cannot be computed
	OverLimit    Code = "over-limit" // the container's memory limit is too low for it
)

// Reason is one reason to refuse a resize, for programs and for people.
type Reason struct {
	Code Code   `json:"code"`
	Text string `json:"text"`
}

// Refusal says why a resize is not begun: all reasons at once. Nothing was changed.
type Refusal struct {
	Reasons []Reason
}

// Error implements error.
func (r *Refusal) Error() string {
	texts := make([]string, 0, len(r.Reasons))
	for _, reason := range r.Reasons {
		texts = append(texts, reason.Text)
	}
	return "resize refused: " + strings.Join(texts, "; ")
}

// Has reports whether a reason of that kind is among them.
func (r *Refusal) Has(c Code) bool {
	for _, reason := range r.Reasons {
		if reason.Code == c {
			return true
		}
	}
	return false
}

func (b *builder) refuse(c Code, format string, args ...any) {
	b.reasons = append(b.reasons, Reason{c, fmt.Sprintf(format, args...)})
}
