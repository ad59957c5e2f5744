// Package stats summarizes measurements, and compares candidates measured in turns.
package stats

import (
	"math"
	"math/rand/v2"

	"github.com/aclements/go-moremath/stats"
	"golang.org/x/perf/benchmath"
)

const (
	confidence = 0.95

	// resamples is the number of bootstrap draws. More draws change only the third digit of an
	// interval's width.
	resamples = 1000
)

// Summary summarizes measurements of one kind, in their unit.
type Summary struct {
	N      int     `json:"n"`
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

// Summarise returns the summary of at least one value.
func Summarise(values []float64) Summary {
	s := stats.Sample{Xs: values}.Copy().Sort()
	_, most := s.Bounds()
	return Summary{N: len(values), Median: s.Quantile(0.5), P99: s.Quantile(0.99), Max: most}
}

// Ratio is the cost of one candidate as a multiple of another's, with the 95% confidence interval.
type Ratio struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// RatioOfMedians compares two candidates measured once in every round: values[i] and base[i] belong
// to the same round. The interval is a percentile bootstrap over rounds, because a disturbance
// affects both values of a round. The same arguments give the same interval.
func RatioOfMedians(values, base []float64) Ratio {
	return ratioOf(values, base, 0.5)
}

// RatioOfP99s is RatioOfMedians for the 99th percentiles.
func RatioOfP99s(values, base []float64) Ratio { return ratioOf(values, base, 0.99) }

func ratioOf(values, base []float64, quantile float64) Ratio {
	n := len(values)
	random := rand.New(rand.NewPCG(uint64(n), resamples))
	drawn := make([]float64, resamples)
	a, b := make([]float64, n), make([]float64, n)
	for i := range drawn {
		for j := range n {
			round := random.IntN(n)
			a[j], b[j] = values[round], base[round]
		}
		drawn[i] = of(a, quantile) / of(b, quantile)
	}
	all := stats.Sample{Xs: drawn}.Copy().Sort()
	return Ratio{
		Value: of(values, quantile) / of(base, quantile),
		Low:   all.Quantile((1 - confidence) / 2),
		High:  all.Quantile((1 + confidence) / 2),
	}
}

// MedianOfRatios compares pairs: values[i] and base[i] were measured right after each other. Use it
// when measurements drift more between pairs than they differ within one. The interval is the exact
// interval of the median by order statistics. Below six pairs it is unbounded, reported as 0 and
// the largest float64.
func MedianOfRatios(values, base []float64) Ratio {
	ratios := make([]float64, len(values))
	for i := range values {
		ratios[i] = values[i] / base[i]
	}
	s := benchmath.AssumeNothing.Summary(benchmath.NewSample(ratios, &benchmath.DefaultThresholds),
		confidence)
	return Ratio{Value: s.Center, Low: max(s.Lo, 0), High: min(s.Hi, math.MaxFloat64)}
}

func of(values []float64, quantile float64) float64 {
	return stats.Sample{Xs: values}.Quantile(quantile)
}
