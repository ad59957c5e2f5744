package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// coreRun is the result of the core tests in one cell with one handler.
type coreRun struct {
	Cell    string `json:"cell"`
	Handler string `json:"handler"`
	Date    string `json:"date"` // of the run, as 2006-01-02 in UTC
	// Facts are the versions of kernel, runtime, nri and the handler.
	Facts  map[string]string `json:"facts"`
	Claims []claim           `json:"claims"`
	// partial marks a run of selected tests only.
	partial bool
}

// claim is a statement about Mooring, checked by a test of the core.
type claim struct {
	Claim  string `json:"claim"`
	Test   string `json:"test"`
	Result string `json:"result"` // pass, fail or skip
	// Outcome describes the behaviour where it depends on the runtime.
	Outcome string `json:"outcome,omitempty"`
	// Reason explains a failed or skipped test.
	Reason string `json:"reason,omitempty"`
}

// results are the latest run of each cell and handler.
type results struct {
	file string
	runs []coreRun
}

// load reads the file. A missing file contains no runs.
func (r *results) load() error {
	b, err := os.ReadFile(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r.runs); err != nil {
		return fmt.Errorf("reading %s: %w", r.file, err)
	}
	return nil
}

func (r *results) save() error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r.runs); err != nil {
		return err
	}
	return os.WriteFile(r.file, b.Bytes(), 0o644)
}

// merge replaces earlier runs of the same cell and handler, and sorts all runs by cell. It drops
// runs of cells missing in cells.json.
func (r *results) merge(runs []coreRun) {
	for _, n := range runs {
		i := slices.IndexFunc(r.runs, func(o coreRun) bool {
			return o.Cell == n.Cell && o.Handler == n.Handler
		})
		switch {
		case i < 0:
			r.runs = append(r.runs, n)
		case n.partial:
			r.runs[i].update(n)
		default:
			r.runs[i] = n
		}
	}
	order := map[string]int{}
	cells, _ := allCells() // embedded
	for i, c := range cells {
		order[c.name()] = i
	}
	r.runs = slices.DeleteFunc(r.runs, func(o coreRun) bool {
		_, found := order[o.Cell]
		return !found
	})
	slices.SortStableFunc(r.runs, func(a, b coreRun) int { return order[a.Cell] - order[b.Cell] })
}

// update replaces the claims of a partial run.
func (r *coreRun) update(n coreRun) {
	r.Date, r.Facts = n.Date, n.Facts
	for _, c := range n.Claims {
		if i := slices.IndexFunc(r.Claims, func(o claim) bool {
			return o.Claim == c.Claim
		}); i >= 0 {
			r.Claims[i] = c
		} else {
			r.Claims = append(r.Claims, c)
		}
	}
}
