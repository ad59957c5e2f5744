package podapi

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/mooring-vm/mooring/api"
)

// Amount is an amount of memory in bytes, or [Unlimited]. In JSON it is a whole number up to 2^63 -
// 1, or "unlimited".
type Amount uint64

// Unlimited is no limit. It is the largest amount, so amounts compare as numbers.
const Unlimited Amount = math.MaxUint64

// MarshalJSON implements [json.Marshaler]. An amount above 2^63 - 1 becomes "unlimited".
func (a Amount) MarshalJSON() ([]byte, error) {
	if a > math.MaxInt64 {
		return json.Marshal(api.Unlimited)
	}
	return strconv.AppendUint(nil, uint64(a), 10), nil
}

// UnmarshalJSON implements [json.Unmarshaler]. null is an error.
func (a *Amount) UnmarshalJSON(data []byte) error {
	if string(data) == strconv.Quote(api.Unlimited) {
		*a = Unlimited
		return nil
	}
	n, err := strconv.ParseUint(string(data), 10, 63)
	if err != nil {
		return fmt.Errorf("%.40s: want a whole number of bytes, at most %d, or %q", data,
			math.MaxInt64, api.Unlimited)
	}
	*a = Amount(n)
	return nil
}

// String returns the amount as a quantity ("4Gi") or "unlimited".
func (a Amount) String() string {
	if a > math.MaxInt64 {
		return api.Unlimited
	}
	return api.Bytes(a).String()
}
