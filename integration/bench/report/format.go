package report

import (
	"fmt"
	"math"

	"github.com/mooring-vm/mooring/integration/bench/stats"
)

// format shows a number of a unit with three digits.
func format(v float64, u Unit) string {
	switch u {
	case Seconds:
		return formatSeconds(v)
	case Bytes:
		return digits(v/1e6) + " MB"
	case Cores:
		return digits(100*v) + "% of a core"
	case PerSecond:
		return digits(v) + " per second"
	case Share:
		return fmt.Sprintf("%.0f%%", 100*v)
	case Count:
		return fmt.Sprintf("%.0f", v)
	case Each:
		return fmt.Sprintf("%.2f", v)
	}
	return digits(v) + " " + string(u)
}

func formatSeconds(v float64) string {
	switch size := math.Abs(v); {
	case size > 0 && size < 1e-6:
		return digits(v*1e9) + " ns"
	case size < 1e-3:
		return digits(v*1e6) + " µs"
	case size < 1:
		return digits(v*1e3) + " ms"
	}
	return digits(v) + " s"
}

// digits rounds to three digits, and shows no exponent.
func digits(v float64) string {
	if v == 0 {
		return "0"
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return fmt.Sprintf("%.*f", max(0, decimals), v)
}

func formatRatio(r stats.Ratio) string {
	high := times(r.High)
	if r.High == math.MaxFloat64 {
		high = "unbounded"
	}
	return fmt.Sprintf("%s (%s to %s)", times(r.Value), times(r.Low), high)
}

// times formats a multiple: three decimals near one, three digits far from it.
func times(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.3f", v)
	}
	return digits(v)
}

func (g Goal) format(u Unit) string {
	if g.Of == Ratio || g.Of == P99Ratio {
		return fmt.Sprintf("%s ≤ %.2f", g.Of, g.Most)
	}
	if g.Of == Value {
		return "≤ " + format(g.Most, u)
	}
	return fmt.Sprintf("%s ≤ %s", g.Of, format(g.Most, u))
}
