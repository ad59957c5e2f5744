package kubevirt

import (
	"fmt"
	"math"
	"strconv"

	"github.com/mooring-vm/mooring/memlock"
)

// Ratio is KubeVirt's additionalGuestMemoryOverheadRatio. The zero value is none.
type Ratio struct {
	factor float64
	text   string // the original spelling; empty: none
}

// ParseRatio reads a ratio as KubeVirt does, with strconv.ParseFloat. "1.5" adds half of the
// overhead. KubeVirt and ParseRatio refuse ratios below 1. ParseRatio also refuses infinity and
// NaN.
func ParseRatio(s string) (Ratio, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) || f < 1 {
		return Ratio{}, fmt.Errorf("overhead ratio %q: want a number of at least 1, such as 1.5", s)
	}
	return Ratio{factor: f, text: s}, nil
}

// String returns the ratio in its original spelling, or "" for none.
func (r Ratio) String() string {
	return r.text
}

// share returns the ratio's term for a sum. KubeVirt rounds the sum up to thousands of bytes, and
// the term down.
func (r Ratio) share(sum int64) (memlock.Term, error) {
	more := float64(thousands(sum)) * (r.factor - 1)
	if more >= math.MaxInt64/1000 {
		return memlock.Term{}, fmt.Errorf("overhead ratio %s: makes more of %d bytes than an "+
			"int64 holds", r.text, sum)
	}
	return memlock.Term{Name: "ratio " + r.text, Bytes: int64(more) * 1000}, nil
}
