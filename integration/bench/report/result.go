// Package report stores the figures of a run, compares them with their goals, and renders them.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"

	"github.com/mooring-vm/mooring/integration/bench/stats"
)

// Unit is the unit of a row's numbers.
type Unit string

// The units. All are base units. The display chooses multiples.
const (
	Seconds   Unit = "seconds"
	Bytes     Unit = "bytes"
	Cores     Unit = "cores" // CPU time per time
	PerSecond Unit = "1/s"
	Share     Unit = "share" // of one
	Count     Unit = "count"
	Each      Unit = "each" // number for each item
)

// Result contains the tables of one or more runs. Each table is from a single run.
type Result struct {
	Tables map[string]Table `json:"tables"`
}

// Table contains figures measured together.
type Table struct {
	Machine Machine `json:"machine"`
	Rows    []Row   `json:"rows"`
}

// Row is one figure, from one or many measurements.
type Row struct {
	Measurement string         `json:"measurement"`
	Candidate   string         `json:"candidate,omitempty"` // what was compared
	Unit        Unit           `json:"unit"`
	Value       float64        `json:"value,omitempty"`   // single measurement
	Summary     *stats.Summary `json:"summary,omitempty"` // many measurements
	Ratio       *stats.Ratio   `json:"ratio,omitempty"`   // to the baseline
	P99Ratio    *stats.Ratio   `json:"p99Ratio,omitempty"`
	Goals       []Goal         `json:"goals,omitempty"`
}

// Load reads a result. A missing file is an empty result.
func Load(file string) (Result, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Result{Tables: map[string]Table{}}, nil
	}
	if err != nil {
		return Result{}, fmt.Errorf("reading figures: %w", err)
	}
	var r Result
	if err := json.Unmarshal(content, &r); err != nil {
		return Result{}, fmt.Errorf("reading figures from %s: %w", file, err)
	}
	return r, nil
}

// Save writes the tables of r to file and keeps the file's other tables.
func (r Result) Save(file string) error {
	all, err := Load(file)
	if err != nil {
		return err
	}
	maps.Copy(all.Tables, r.Tables)
	content, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing figures: %w", err)
	}
	return nil
}
