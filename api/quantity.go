package api

import (
	"math"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

const wantQuantity = "want a whole number of bytes as a quantity such as 4Gi, 1.5Gi or 500M, " +
	"without sign, space, exponent or fraction of a byte"

// quantityGrammar is the subset of Kubernetes quantities that count bytes. Kubernetes keeps nine
// digits after the point and rounds up beyond.
var quantityGrammar = regexp.MustCompile(`^[0-9]{1,19}(\.[0-9]{1,9})?([kMGTPE]|[KMGTPE]i)?$`)

// Bytes is a number of bytes that prints as a Kubernetes quantity.
type Bytes int64

// String returns the exact number in Kubernetes' form: the largest binary unit without a fraction
// ("4Gi", "1536Mi", "1025"), and a decimal unit below 1 KiB. [ParseBytes] reads it back to the same
// number.
func (b Bytes) String() string {
	return resource.NewQuantity(int64(b), resource.BinarySI).String()
}

// ParseBytes reads a Kubernetes quantity as a whole, non-negative number of bytes that fits an
// int64. It accepts digits with an optional fraction and a decimal (k, M, G, T, P, E) or binary (Ki
// to Ei) unit, as resource.ParseQuantity does. Signs, exponents ("1e30"), units below one ("1m")
// and values that would be rounded or capped are errors: an [*InvalidError] without key.
func ParseBytes(s string) (Bytes, error) {
	if !quantityGrammar.MatchString(s) {
		return 0, invalid(s, wantQuantity)
	}
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return 0, invalid(s, wantQuantity)
	}
	// ParseQuantity caps binary units at MaxInt64, so MaxInt64 may stand for more.
	if q.CmpInt64(math.MaxInt64) > 0 || q.CmpInt64(math.MaxInt64) == 0 &&
		strings.HasSuffix(s, "i") {
		return 0, invalid(s, "too large: want at most %d bytes, just under 8Ei",
			int64(math.MaxInt64))
	}
	n := q.Value() // rounds up
	if q.CmpInt64(n) != 0 {
		return 0, invalid(s, wantQuantity)
	}
	return Bytes(n), nil
}

// parsePositiveBytes is ParseBytes without zero.
func parsePositiveBytes[T ~int64](s string) (T, error) {
	b, err := ParseBytes(s)
	if err == nil && b == 0 {
		err = invalid(s, "zero makes no sense here: %s", wantQuantity)
	}
	return T(b), err
}
