package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadResizes(t *testing.T) {
	for text, want := range map[string]string{
		`{`:  "unexpected end of JSON input",
		`{}`: "no samples",
		`{"a": {"libvirt": {"took": [1], "paused": [1]}, ` +
			`"shim": {"took": [], "paused": []}}}`: `"a" has 0 samples of the shim and 1 of libvirt`,
		`{"a": {"libvirt": {"took": [1], "paused": [1]}, ` +
			`"shim": {"took": [1, 2], "paused": [1]}}}`: `"a" has 2 samples of the shim and 1 of libvirt`,
		`{"a": {"libvirt": {"took": [2], "paused": [0.5]}, ` +
			`"shim": {"took": [3], "paused": [0.5]}}}`: "",
	} {
		file := filepath.Join(t.TempDir(), "samples.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := readResizes(file)
		if want == "" {
			rows := resizeRows(found, func(s resizeSamples) []float64 { return s.Took })
			if err != nil || len(rows) != 2 || rows[1].Ratio.Value != 1.5 {
				t.Errorf("%s: %v, %+v", text, err, rows)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := readResizes(filepath.Join(t.TempDir(), "none.json")); err == nil ||
		!strings.Contains(err.Error(), "without libvirtd and QEMU") {
		t.Errorf("without a file: %v", err)
	}
}
