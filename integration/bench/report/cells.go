package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mooring-vm/mooring/integration/bench/stats"
)

// column shows one property of a row.
type column struct {
	title string
	cell  func(Row) (string, error)
}

func columns() []column {
	return []column{
		{"measurement", func(r Row) (string, error) { return r.Measurement, nil }},
		{"with", func(r Row) (string, error) { return r.Candidate, nil }},
		{"value", Row.value},
		{"n", func(r Row) (string, error) {
			return r.summary(func(s stats.Summary) string { return fmt.Sprint(s.N) }), nil
		}},
		{"median", func(r Row) (string, error) {
			return r.summary(func(s stats.Summary) string { return format(s.Median, r.Unit) }), nil
		}},
		{"p99", func(r Row) (string, error) {
			return r.summary(func(s stats.Summary) string { return format(s.P99, r.Unit) }), nil
		}},
		{"ratio (95%)", Row.ratio},
	}
}

// withGoals adds the columns of goals, which have a table of their own in the pages.
func withGoals(columns []column) []column {
	return append(columns, column{"p99 ratio (95%)", Row.p99Ratio}, column{"goal", Row.goals})
}

// cells returns the lines of these columns, the head first, without empty columns.
func (t Table) cells(columns []column) ([][]string, error) {
	var kept [][]string
	for _, c := range columns {
		cells := []string{c.title}
		for _, r := range t.Rows {
			cell, err := c.cell(r)
			if err != nil {
				return nil, err
			}
			cells = append(cells, cell)
		}
		if slices.ContainsFunc(cells[1:], func(s string) bool { return s != "" }) {
			kept = append(kept, cells)
		}
	}
	return transpose(kept), nil
}

func transpose(columns [][]string) [][]string {
	if len(columns) == 0 {
		return nil
	}
	lines := make([][]string, len(columns[0]))
	for i := range lines {
		for _, c := range columns {
			lines[i] = append(lines[i], c[i])
		}
	}
	return lines
}

func (r Row) value() (string, error) {
	if r.Summary != nil {
		return "", nil
	}
	return format(r.Value, r.Unit), nil
}

// summary returns "" for a row of a single measurement.
func (r Row) summary(show func(stats.Summary) string) string {
	if r.Summary == nil {
		return ""
	}
	return show(*r.Summary)
}

func (r Row) ratio() (string, error) {
	if r.Ratio == nil {
		return "", nil
	}
	return formatRatio(*r.Ratio), nil
}

func (r Row) p99Ratio() (string, error) {
	if r.P99Ratio == nil {
		return "", nil
	}
	return formatRatio(*r.P99Ratio), nil
}

// goals shows each goal of the row with its verdict.
func (r Row) goals() (string, error) {
	var all []string
	for _, g := range r.Goals {
		v, err := r.Verdict(g)
		if err != nil {
			return "", err
		}
		all = append(all, fmt.Sprintf("%s: %s", g.format(r.Unit), v))
	}
	return strings.Join(all, "; "), nil
}

// figure shows the part of the row that a goal bounds.
func (r Row) figure(q Quantity) string {
	switch {
	case q == Ratio && r.Ratio != nil:
		return formatRatio(*r.Ratio)
	case q == P99Ratio && r.P99Ratio != nil:
		return formatRatio(*r.P99Ratio)
	case q == Median && r.Summary != nil:
		return format(r.Summary.Median, r.Unit)
	case q == P99 && r.Summary != nil:
		return format(r.Summary.P99, r.Unit)
	}
	return format(r.Value, r.Unit)
}
