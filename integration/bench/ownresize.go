package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/integration/bench/report"
)

const (
	// ownResizeTable contains the sidecar's own times of a resize.
	ownResizeTable = "resizeOwn"

	// mostOwnResize is the goal for the median of the sidecar's own time.
	mostOwnResize = 10e-3
)

// ownResizeCommand makes a table of BenchmarkOwnResize's measurements.
func ownResizeCommand() *cobra.Command {
	var file, result string
	c := &cobra.Command{
		Use:   "own-resize",
		Short: "Make a table from the samples of BenchmarkOwnResize",
		Long: "Reads the samples of `go test -run '^$' -bench OwnResize ./shim/coordinator`.\n" +
			"The environment variable MOORING_OWN_SAMPLES of that test names the file.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			rows, err := readOwnResizes(file)
			if err != nil {
				return err
			}
			return publish(tables{ownResizeTable: rows}, result)
		},
	}
	c.Flags().StringVar(&file, "samples", "artefacts/own-resize.json", "file with the samples")
	c.Flags().StringVar(&result, "result", "", "JSON file for the figures; keeps the tables of "+
		"other commands")
	return c
}

// readOwnResizes returns a row for each kind of resize in a file of samples.
func readOwnResizes(file string) ([]report.Row, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var found map[string][]float64
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: no samples", file)
	}
	var rows []report.Row
	for _, kind := range slices.Sorted(maps.Keys(found)) {
		if len(found[kind]) == 0 {
			return nil, fmt.Errorf("%s: %q has no samples", file, kind)
		}
		row := summaryRow(kind, mooring, found[kind])
		row.Goals = []report.Goal{{Of: report.Median, Most: mostOwnResize}}
		rows = append(rows, row)
	}
	return rows, nil
}
