package host

import (
	"math"
	"strconv"

	"github.com/mooring-vm/mooring/api"
)

// Limit is a memory-lock limit in bytes. Unlimited is the largest value, so limits compare as
// numbers.
type Limit uint64

// Unlimited means no limit: RLIM_INFINITY.
const Unlimited Limit = math.MaxUint64

// String returns the limit as a quantity ("4Gi") or "unlimited".
func (l Limit) String() string {
	switch {
	case l == Unlimited:
		return api.Unlimited
	case l > math.MaxInt64:
		return strconv.FormatUint(uint64(l), 10)
	}
	return api.Bytes(l).String()
}

// Rlimit is the RLIMIT_MEMLOCK of a process.
type Rlimit struct {
	Soft, Hard Limit
}

// Covers reports whether the process may lock l. Both limits must cover it, because the process can
// lower its soft limit and raise it again up to the hard one.
func (r Rlimit) Covers(l Limit) bool { return r.Soft >= l && r.Hard >= l }

// Raised returns r with both limits at least l. A repair never lowers a limit.
func (r Rlimit) Raised(l Limit) Rlimit {
	return Rlimit{Soft: max(r.Soft, l), Hard: max(r.Hard, l)}
}
