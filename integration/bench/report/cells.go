package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mooring-vm/mooring/integration/bench/stats"
)

// column shows one aspect of rows.
type column struct {
	title string
	cell  func(Row) (string, error)
}

func columns() []column {
	return []column{
		{"what", func(r Row) (string, error) { return r.What, nil }},
		{"with", func(r Row) (string, error) { return r.Who, nil }},
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
		{"goal", Row.goals},
		{"reached", Row.verdicts},
	}
}

// cells returns the table's lines, the head first. Columns in which nothing is are
// left out.
func (t Table) cells() ([][]string, error) {
	var kept [][]string
	for _, c := range columns() {
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

// summary is empty for a row of a single measurement.
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

func (r Row) goals() (string, error) {
	var all []string
	for _, g := range r.Goals {
		all = append(all, g.format(r.Unit))
	}
	return strings.Join(all, "; "), nil
}

func (r Row) verdicts() (string, error) {
	var all []string
	for _, g := range r.Goals {
		v, err := r.Verdict(g)
		if err != nil {
			return "", err
		}
		all = append(all, string(v))
	}
	return strings.Join(all, "; "), nil
}
