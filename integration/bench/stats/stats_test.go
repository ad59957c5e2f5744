package stats_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/integration/bench/stats"
)

func TestSummarise(t *testing.T) {
	values := make([]float64, 1001)
	for i := range values {
		values[i] = float64(1000 - i)
	}
	want := stats.Summary{N: 1001, Median: 500, P99: 990, Max: 1000}
	if diff := cmp.Diff(want, stats.Summarise(values), cmpopts.EquateApprox(0, 1)); diff != "" {
		t.Error(diff)
	}
	if values[0] != 1000 {
		t.Error("the values were sorted, and with that parted from those of their rounds")
	}
}

// A disturbance affects both values of a round, so the ratio stays exact.
func TestRatioOfTheSameRounds(t *testing.T) {
	base, values := make([]float64, 50), make([]float64, 50)
	for i := range base {
		base[i] = 1 + rand.Float64()
		values[i] = 2 * base[i]
	}
	want := stats.Ratio{Value: 2, Low: 2, High: 2}
	for name, ratio := range map[string]func(values, base []float64) stats.Ratio{
		"medians": stats.RatioOfMedians, "p99s": stats.RatioOfP99s,
	} {
		if diff := cmp.Diff(want, ratio(values, base), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Slow values are in the ratio of the 99th percentiles, and not in that of the medians.
func TestRatioOfP99s(t *testing.T) {
	base, values := slices.Repeat([]float64{1}, 200), slices.Repeat([]float64{1}, 200)
	for i := range 20 {
		values[i*10] = 3
	}
	if p99, middle := stats.RatioOfP99s(values, base), stats.RatioOfMedians(values, base); p99.Value !=
		3 || middle.Value != 1 {
		t.Errorf("the ratio of the p99 is %v, of the medians %v, want 3 and 1", p99, middle)
	}
}

// The 95% interval nearly always contains the true ratio and is not wider than the noise.
func TestIntervals(t *testing.T) {
	for name, ratio := range map[string]func(values, base []float64) stats.Ratio{
		"ratio of medians": stats.RatioOfMedians,
		"median of ratios": stats.MedianOfRatios,
	} {
		random := rand.New(rand.NewPCG(1, 2))
		const tries, truth = 100, 1.1
		held := 0
		for range tries {
			base, values := make([]float64, 60), make([]float64, 60)
			for i := range base {
				base[i] = 1 + 0.1*random.NormFloat64()
				values[i] = truth * (1 + 0.1*random.NormFloat64())
			}
			r := ratio(values, base)
			if r.Low <= truth && truth <= r.High {
				held++
			}
			if r.High-r.Low > 0.2 {
				t.Errorf("%s: the interval is %v, wider than the noise accounts for", name, r)
			}
		}
		if held < 88 {
			t.Errorf("%s: the interval held the true ratio in %d of %d runs, want about 95", name,
				held, tries)
		}
	}
}

func TestMedianOfRatiosOfFewPairs(t *testing.T) {
	want := stats.Ratio{Value: 2, Low: 0, High: math.MaxFloat64}
	if diff := cmp.Diff(want, stats.MedianOfRatios([]float64{2, 4, 6}, []float64{1, 2, 3})); diff !=
		"" {
		t.Error(diff)
	}
}

func TestIntervalsHoldTheirValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		some := rapid.SliceOfN(rapid.Float64Range(1e-6, 10), n, n)
		values, base := some.Draw(t, "values"), some.Draw(t, "base")
		if r := stats.MedianOfRatios(values, base); !(r.Low <= r.Value && r.Value <= r.High) {
			t.Errorf("median of ratios: %+v is not in its interval", r)
		}
		if a, b := stats.RatioOfMedians(values, base), stats.RatioOfMedians(values, base); a != b {
			t.Errorf("the same values gave %+v and %+v", a, b)
		}
	})
}
