package report

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/integration/bench/stats"
)

func TestVerdict(t *testing.T) {
	ratio := func(low, high float64) Row {
		return Row{Ratio: &stats.Ratio{Value: (low + high) / 2, Low: low, High: high}}
	}
	for name, c := range map[string]struct {
		row  Row
		goal Goal
		want Verdict
	}{
		"ratio below":            {ratio(1.01, 1.15), Goal{Ratio, 1.15}, Met},
		"ratio above":            {ratio(1.16, 1.2), Goal{Ratio, 1.15}, Missed},
		"interval over the goal": {ratio(1.1, 1.2), Goal{Ratio, 1.15}, Open},
		"p99 ratio above": {Row{Ratio: &stats.Ratio{}, P99Ratio: &stats.Ratio{Value: 2, Low: 1.6,
			High: 3}}, Goal{P99Ratio, 1.5}, Missed},
		"median": {Row{Summary: &stats.Summary{Median: 2, P99: 9}},
			Goal{Median, 2}, Met},
		"p99":   {Row{Summary: &stats.Summary{Median: 2, P99: 9}}, Goal{P99, 8}, Missed},
		"value": {Row{Value: 3}, Goal{Value, 2}, Missed},
	} {
		got, err := c.row.Verdict(c.goal)
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
	if _, err := (Row{}).Verdict(Goal{Ratio, 1}); err == nil {
		t.Error("no error for a goal without a measurement")
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		value float64
		unit  Unit
		want  string
	}{
		{123.456e-6, Seconds, "123 µs"},
		{1.23456e-3, Seconds, "1.23 ms"},
		{12.3456, Seconds, "12.3 s"},
		{123.4e-9, Seconds, "123 ns"},
		{0, Seconds, "0 µs"},
		{-1.5e-3, Seconds, "-1.50 ms"},
		{12345, Count, "12345"},
		{0, Count, "0"},
		{30e6, Bytes, "30.0 MB"},
		{0.001234, Cores, "0.123% of a core"},
		{12345, PerSecond, "12345 per second"},
		{0.456, Share, "46%"},
	} {
		if got := format(c.value, c.unit); got != c.want {
			t.Errorf("format(%v, %s) = %q, want %q", c.value, c.unit, got, c.want)
		}
	}
	for want, ratio := range map[string]stats.Ratio{
		"1.000 (0.000 to unbounded)": {Value: 1, High: math.MaxFloat64},
		"1235 (99.9 to 12346)":       {Value: 1234.5678, Low: 99.91, High: 12345.6},
	} {
		if got := formatRatio(ratio); got != want {
			t.Errorf("ratio = %q, want %q", got, want)
		}
	}
}

func example() Table {
	return Table{Rows: []Row{
		{Measurement: "ask", Candidate: "empty", Unit: Seconds,
			Summary: &stats.Summary{N: 10, Median: 1e-4, P99: 2e-4}},
		{
			Measurement: "ask", Candidate: "Mooring", Unit: Seconds,
			Summary:  &stats.Summary{N: 10, Median: 1.1e-4, P99: 3e-3},
			Ratio:    &stats.Ratio{Value: 1.1, Low: 1.05, High: 1.12},
			P99Ratio: &stats.Ratio{Value: 1.3, Low: 1.2, High: 1.4},
			Goals:    []Goal{{Ratio, 1.15}, {P99Ratio, 1.2}, {P99, 1e-3}},
		},
	}}
}

func TestTable(t *testing.T) {
	got, err := (Result{Tables: map[string]Table{"example": example()}}).markdown("example")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"| measurement | with | n | median | p99 | ratio (95%) |",
		"|---|---|---|---|---|---|",
		"| ask | empty | 10 | 100 µs | 200 µs |  |",
		"| ask | Mooring | 10 | 110 µs | 3.00 ms | 1.100 (1.050 to 1.120) |",
	}, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPrintShowsGoals(t *testing.T) {
	var out strings.Builder
	if err := example().Print(&out); err != nil {
		t.Fatal(err)
	}
	want := "1.300 (1.200 to 1.400)  ratio ≤ 1.15: met; " +
		"p99 ratio ≤ 1.20: within the noise; p99 ≤ 1.00 ms: not met"
	if !strings.Contains(out.String(), want) {
		t.Errorf("printed without %q:\n%s", want, out.String())
	}
}

func TestSaveKeepsOtherTables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures.json")
	for _, name := range []string{"one", "two", "one"} {
		if err := (Result{Tables: map[string]Table{name: example()}}).Save(file); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]Table{"one": example(), "two": example()}, got.Tables); diff !=
		"" {
		t.Error(diff)
	}
}

func TestGoalsTable(t *testing.T) {
	got, err := (Result{Tables: map[string]Table{"example": example()}}).markdownGoals("example")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"| measurement | with | goal | figure | reached |",
		"|---|---|---|---|---|",
		"| ask | Mooring | ratio ≤ 1.15 | 1.100 (1.050 to 1.120) | met |",
		"| ask | Mooring | p99 ratio ≤ 1.20 | 1.300 (1.200 to 1.400) | within the noise |",
		"| ask | Mooring | p99 ≤ 1.00 ms | 3.00 ms | not met |",
	}, "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPagesNeedAllTables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "figures.json")
	if err := (Result{Tables: map[string]Table{"roundTrip": example()}}).Save(file); err != nil {
		t.Fatal(err)
	}
	if err := RenderFile(file, t.TempDir()); !errors.Is(err, ErrIncomplete) {
		t.Errorf("RenderFile = %v, want ErrIncomplete", err)
	}
}

func TestPublishedPages(t *testing.T) {
	r, err := Load("../benchmarks.json")
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := r.Pages()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range rendered {
		got, err := os.ReadFile(filepath.Join("../../../docs/reference", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("`make generate` changes docs/reference/%s (-rendered +committed):\n%s", name,
				diff)
		}
	}
	if len(rendered) != 6 {
		t.Errorf("%d pages, want 6", len(rendered))
	}
}

func TestThisMachine(t *testing.T) {
	m, err := ThisMachine()
	if err != nil {
		t.Fatal(err)
	}
	text, err := m.JSON()
	if err != nil {
		t.Fatal(err)
	}
	same, err := ParseMachine(text)
	if err != nil || same != m {
		t.Errorf("ParseMachine = %+v, %v, want %+v", same, err, m)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if m.CPU == "" || m.Cores == 0 || m.MemoryGiB == 0 || strings.Contains(text, `"`+host+`"`) {
		t.Errorf("the machine is described as %s, want its processor and memory, and not its name",
			text)
	}
}
