package domain

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

const wantUnit = "want b, bytes, or k, M, G, T, P, E alone or with iB (powers of 1024) or B " +
	"(powers of 1000)"

// unlimitedKiB is libvirt's value for "no limit" (VIR_DOMAIN_MEMORY_PARAM_UNLIMITED): in KiB in a
// definition, in bytes in a process limit.
const unlimitedKiB = 9007199254740991

// maxKiB is the largest size. It fits a signed 64-bit number of bytes.
const maxKiB = 1<<53 - 1

// Kibibytes converts a size of a domain XML to KiB as libvirt does (virScaleInteger). Units ignore
// case, a value without unit is in KiB, and fractions round up. element names the size in errors.
// The errors are an unknown unit, and 8 EiB or more.
func Kibibytes(element string, value uint64, unit string) (uint64, error) {
	scale, err := scaleOf(unit)
	if err != nil {
		return 0, fmt.Errorf("%s: unit %q: %w", element, unit, err)
	}
	high, size := bits.Mul64(value, scale)
	if high > 0 || size > maxKiB*KiB {
		return 0, tooLarge(element, fmt.Sprintf("%d %s", value, unit))
	}
	return roundUp(size, KiB) / KiB, nil
}

// add adds up sizes in KiB.
func add(element string, a, b uint64) (uint64, error) {
	if a > maxKiB || b > maxKiB-a {
		return 0, tooLarge(element, fmt.Sprintf("%d KiB and %d KiB, rounded up", a, b))
	}
	return a + b, nil
}

func tooLarge(element, amount string) error {
	return fmt.Errorf("%s: %s: want less than 8 EiB", element, strings.TrimSpace(amount))
}

func scaleOf(unit string) (uint64, error) {
	unit = strings.ToLower(unit)
	switch unit {
	case "":
		return KiB, nil
	case "b", "byte", "bytes":
		return 1, nil
	}
	power := strings.IndexByte("kmgtpe", unit[0]) + 1
	base := uint64(1024)
	switch unit[1:] {
	case "", "ib":
	case "b":
		base = 1000
	default:
		power = 0
	}
	if power == 0 {
		return 0, errors.New(wantUnit)
	}
	scale := uint64(1)
	for range power {
		scale *= base
	}
	return scale, nil
}

// roundUp returns the smallest multiple of step from n on.
func roundUp(n, step uint64) uint64 {
	return (n + step - 1) / step * step
}
