package host

import (
	"math"
	"strconv"

	"github.com/mooring-vm/mooring/api"
)

// Limit is an amount of lockable memory in bytes. Unlimited is the largest, so
// limits compare as numbers.
type Limit uint64

// Unlimited is no limit: RLIM_INFINITY.
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

// Rlimit is a process's RLIMIT_MEMLOCK.
type Rlimit struct {
	Soft, Hard Limit
}

// Covers reports whether the process may lock l, and may say so: setrlimit(2)
// lets it lower the soft limit and raise it again up to the hard one.
func (r Rlimit) Covers(l Limit) bool { return r.Soft >= l && r.Hard >= l }

// Raised returns r with neither limit below l. A repair never lowers.
func (r Rlimit) Raised(l Limit) Rlimit {
	return Rlimit{Soft: max(r.Soft, l), Hard: max(r.Hard, l)}
}
