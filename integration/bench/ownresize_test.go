package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/integration/bench/report"
)

func TestReadOwnResizes(t *testing.T) {
	for text, want := range map[string]string{
		`{`:           "unexpected end of JSON input",
		`{}`:          "no samples",
		`{"a": []}`:   `"a" has no samples`,
		`{"a": [.1]}`: "invalid character",
		`{"b": [0.011, 0.012], "a": [0.001, 0.002, 0.003]}`: "",
	} {
		file := filepath.Join(t.TempDir(), "samples.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		rows, err := readOwnResizes(file)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), file) {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
			continue
		}
		if err != nil || len(rows) != 2 || rows[0].Measurement != "a" {
			t.Fatalf("%s: %v, %+v", text, err, rows)
		}
		for i, want := range []report.Verdict{report.Met, report.Missed} {
			if got, err := rows[i].Verdict(rows[i].Goals[0]); err != nil || got != want {
				t.Errorf("%s: %s, %v, want %s", rows[i].Measurement, got, err, want)
			}
		}
	}
}
