package api

// Unlimited is the value of [ValueKey] that asks for no limit.
const Unlimited = "unlimited"

// Lockable is an amount of lockable memory: a number of bytes, or no limit. Bytes is 0 if Unlimited
// is set.
type Lockable struct {
	Bytes     int64
	Unlimited bool
}

// String returns the annotation value: a quantity or "unlimited". [ParseLockable] reads it back to
// the same Lockable.
func (l Lockable) String() string {
	if l.Unlimited {
		return Unlimited
	}
	return Bytes(l.Bytes).String()
}

// ParseLockable reads "unlimited" or a quantity as [ParseBytes] does. Zero is allowed. The error is
// an [*InvalidError] without key.
func ParseLockable(s string) (Lockable, error) {
	if s == Unlimited {
		return Lockable{Unlimited: true}, nil
	}
	b, err := ParseBytes(s)
	if err != nil {
		return Lockable{}, invalid(s, "%s; or %q", keyed("", s, err).Allowed, Unlimited)
	}
	return Lockable{Bytes: int64(b)}, nil
}
