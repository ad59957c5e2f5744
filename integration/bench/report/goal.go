package report

import "fmt"

// Quantity is the part of a row bounded by a goal.
type Quantity string

// The quantities.
const (
	Ratio    Quantity = "ratio"
	P99Ratio Quantity = "p99 ratio"
	Median   Quantity = "median"
	P99      Quantity = "p99"
	Value    Quantity = "value"
)

// Goal is the maximum of a figure.
type Goal struct {
	Of   Quantity `json:"of"`
	Most float64  `json:"most"`
}

// Verdict is the result of a goal.
type Verdict string

// A ratio is Open while its interval contains the goal, because noise could decide either way.
const (
	Met    Verdict = "met"
	Missed Verdict = "not met"
	Open   Verdict = "within the noise"
)

// Verdict compares the row with one of its goals.
func (r Row) Verdict(g Goal) (Verdict, error) {
	low, high, err := r.bounds(g.Of)
	switch {
	case err != nil:
		return "", err
	case high <= g.Most:
		return Met, nil
	case low > g.Most:
		return Missed, nil
	}
	return Open, nil
}

func (r Row) bounds(q Quantity) (low, high float64, err error) {
	switch {
	case q == Ratio && r.Ratio != nil:
		return r.Ratio.Low, r.Ratio.High, nil
	case q == P99Ratio && r.P99Ratio != nil:
		return r.P99Ratio.Low, r.P99Ratio.High, nil
	case q == Median && r.Summary != nil:
		return r.Summary.Median, r.Summary.Median, nil
	case q == P99 && r.Summary != nil:
		return r.Summary.P99, r.Summary.P99, nil
	case q == Value:
		return r.Value, r.Value, nil
	}
	return 0, 0, fmt.Errorf("%s, %s: a goal for its %s, which was not measured", r.Measurement,
		r.Candidate, q)
}
