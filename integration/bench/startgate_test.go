package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/integration/bench/report"
)

func TestReadStarts(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                                      "unexpected end of JSON input",
		`{}`:                                     "0 samples with the gate and 0 without",
		`{"no gate": [1, 2], "Mooring": [1]}`:    "1 samples with the gate and 2 without",
		`{"no gate": [1, 2], "Mooring": [1, 2]}`: "",
	} {
		file := filepath.Join(t.TempDir(), "samples.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		rows, err := readStarts(file)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), file) {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
			continue
		}
		if err != nil || len(rows) != 2 {
			t.Fatalf("%s: %v, %+v", text, err, rows)
		}
		if got, err := rows[1].Verdict(rows[1].Goals[0]); err != nil || got != report.Met {
			t.Errorf("%s, %v, want %s", got, err, report.Met)
		}
	}
}
