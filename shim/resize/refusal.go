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
	Alignment    Code = "alignment"     // no device can reach exactly this size
	NoSlot       Code = "no-slot"       // no free memory slot
	NotPrepared  Code = "not-prepared"  // the domain has no headroom
	NoCell       Code = "no-cell"       // no NUMA cell for a DIMM
	BelowBoot    Code = "below-boot"    // below the boot size
	Migrating    Code = "migrating"
	NotRunning   Code = "not-running"
	Forbidden    Code = "policy"
	NoNodeMemory Code = "no-room"      // the node has too little memory
	NoBandwidth  Code = "no-bandwidth" // libvirt cannot set it
	NoShares     Code = "no-shares"    // libvirt cannot set them
	NoLock       Code = "no-lock"      // libvirt's memory-lock limit cannot be computed
	OverLimit    Code = "over-limit"   // the container's memory limit is too low
)

// Reason is one reason to refuse a resize. Code is for programs, Text for users.
type Reason struct {
	Code Code   `json:"code"`
	Text string `json:"text"`
}

// Refusal is the error of a resize that did not start. It has all reasons.
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

func (b *builder) refuse(c Code, format string, args ...any) {
	b.reasons = append(b.reasons, Reason{c, fmt.Sprintf(format, args...)})
}
