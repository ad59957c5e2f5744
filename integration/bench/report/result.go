// Package report keeps the figures of a run, holds them against their goals, and
// shows them to people.
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

// Unit says what the numbers of a row are.
type Unit string

// The units. All are base units: their multiples are chosen for display.
const (
	Seconds   Unit = "seconds"
	Bytes     Unit = "bytes"
	Cores     Unit = "cores" // CPU time per time
	PerSecond Unit = "1/s"
	Share     Unit = "share" // of one
	Count     Unit = "count"
	Each      Unit = "each" // so many for each of something
)

// Result is what one or several runs found. A table is of one run as a whole.
type Result struct {
	Tables map[string]Table `json:"tables"`
}

// Table is what was measured side by side.
type Table struct {
	Where Machine `json:"where"`
	Rows  []Row   `json:"rows"`
}

// Row is one figure: of many measurements, or of a single one.
type Row struct {
	What    string         `json:"what"`
	Who     string         `json:"who,omitempty"` // the candidate
	Unit    Unit           `json:"unit"`
	Value   float64        `json:"value,omitempty"`   // of a single measurement
	Summary *stats.Summary `json:"summary,omitempty"` // of many
	Ratio   *stats.Ratio   `json:"ratio,omitempty"`   // to the candidate that costs nothing
	Goals   []Goal         `json:"goals,omitempty"`
}

// Load reads a result. A file that is not there is an empty result.
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

// Save writes the tables of r to file, where those of other names stay.
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
