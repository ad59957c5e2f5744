package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/integration/bench/report"
	"github.com/mooring-vm/mooring/integration/bench/stats"
)

const (
	// resizeTable contains the times until a resize is confirmed. pauseTable contains the times for
	// which the guest stopped.
	resizeTable = "resize"
	pauseTable  = "resizePause"

	// mostPause is the goal for the guest's pause in a resize by the sidecar, as a multiple of the
	// pause by direct calls. The time of a resize has the goal mostOwnResize instead: a direct call
	// of 3 ms writes no journal.
	mostPause = 1.1

	libvirtAlone = "direct libvirt call"
)

// resizeCommand makes tables of BenchmarkResize's measurements.
func resizeCommand() *cobra.Command {
	var file, result string
	c := &cobra.Command{
		Use:   "resize",
		Short: "Make tables from the samples of BenchmarkResize",
		Long: "Reads the samples of `go test -run '^$' -bench Resize ./shim/coordinator`.\n" +
			"The environment variable MOORING_SAMPLES of that test names the file.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			samples, err := readResizes(file)
			if err != nil {
				return err
			}
			return publish(tables{
				resizeTable: resizeRows(samples, func(s resizeSamples) []float64 { return s.Took }),
				pauseTable: resizeRows(samples, func(s resizeSamples) []float64 {
					return s.Paused
				}, report.Goal{Of: report.Ratio, Most: mostPause}),
			}, result)
		},
	}
	c.Flags().StringVar(&file, "samples", "artefacts/resize.json", "file with the samples")
	c.Flags().StringVar(&result, "result", "", "JSON file for the figures; keeps the tables of "+
		"other commands")
	return c
}

// resizeSamples are the samples of one way to resize, in seconds.
type resizeSamples struct {
	Took   []float64 `json:"took"`
	Paused []float64 `json:"paused"`
}

// resizes are both ways of one kind, with equal numbers of samples.
type resizes struct {
	Libvirt resizeSamples `json:"libvirt"`
	Shim    resizeSamples `json:"shim"`
}

// readResizes returns the samples by kind of resize.
func readResizes(file string) (map[string]resizes, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: BenchmarkResize writes none without libvirtd and QEMU", err)
	}
	if err != nil {
		return nil, err
	}
	var found map[string]resizes
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: no samples", file)
	}
	for kind, r := range found {
		n := len(r.Shim.Took)
		if n == 0 || n != len(r.Shim.Paused) || n != len(r.Libvirt.Took) ||
			n != len(r.Libvirt.Paused) {
			return nil, fmt.Errorf("%s: %q has %d samples of the shim and %d of libvirt: want "+
				"equal numbers above 0", file, kind, n, len(r.Libvirt.Took))
		}
	}
	return found, nil
}

// resizeRows returns rows of both ways, side by side. The goals are of Mooring's.
func resizeRows(
	samples map[string]resizes, of func(resizeSamples) []float64, goals ...report.Goal,
) []report.Row {
	var rows []report.Row
	for _, kind := range slices.Sorted(maps.Keys(samples)) {
		alone, shim := of(samples[kind].Libvirt), of(samples[kind].Shim)
		ours := summaryRow(kind, mooring, shim)
		ratio := stats.RatioOfMedians(shim, alone)
		ours.Ratio, ours.Goals = &ratio, goals
		rows = append(rows, summaryRow(kind, libvirtAlone, alone), ours)
	}
	return rows
}
