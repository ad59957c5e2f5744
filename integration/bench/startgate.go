package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/integration/bench/report"
)

const (
	// startGateTable contains the times of `virsh create`.
	startGateTable = "startGate"

	noGate = "no gate"

	// mostStart is the goal for a start with the gate, as a multiple of one without.
	mostStart = 1.05
)

// startGateCommand makes a table of BenchmarkStart's measurements.
func startGateCommand() *cobra.Command {
	var file, result string
	c := &cobra.Command{
		Use:   "start-gate",
		Short: "Make a table from the samples of BenchmarkStart",
		Long: "Reads the samples of `go test -run '^$' -bench Start ./cmd/mooring-hook`.\n" +
			"The environment variable MOORING_START_SAMPLES of that test names the file.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			rows, err := readStarts(file)
			if err != nil {
				return err
			}
			return publish(tables{startGateTable: rows}, result)
		},
	}
	c.Flags().StringVar(&file, "samples", "artefacts/start-gate.json", "file with the samples")
	c.Flags().StringVar(&result, "result", "", "JSON file for the figures; keeps the tables of "+
		"other commands")
	return c
}

// readStarts returns the rows of a file of samples.
func readStarts(file string) ([]report.Row, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var found samples
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	base, ours := found[noGate], found[mooring]
	if len(base) == 0 || len(base) != len(ours) {
		return nil, fmt.Errorf("%s: %d samples with the gate and %d without, want equal numbers "+
			"above 0", file, len(ours), len(base))
	}
	const measurement = "virsh create"
	row := summaryRow(measurement, mooring, ours)
	compare(&row, ours, base)
	row.Goals = []report.Goal{{Of: report.Ratio, Most: mostStart}}
	return []report.Row{summaryRow(measurement, noGate, base), row}, nil
}
