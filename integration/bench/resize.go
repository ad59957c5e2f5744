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

	// mostResize is the goal for a resize by the sidecar, as a multiple of the minimum.
	mostResize = 1.1

	libvirtAlone = "libvirt alone"
)

// resizeCommand makes tables of BenchmarkResize's measurements.
func resizeCommand() *cobra.Command {
	var file, result string
	c := &cobra.Command{
		Use:   "resize",
		Short: "Tell what a resize takes, by the samples of BenchmarkResize",
		Long: "Reads what `go test -run '^$' -bench Resize ./shim/coordinator` has left in the " +
			"file that\n" +
			"MOORING_SAMPLES named.",
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
				}),
			}, result)
		},
	}
	c.Flags().StringVar(&file, "samples", "artefacts/resize.json", "the samples")
	c.Flags().StringVar(&result, "result", "", "JSON file to write the figures to, and the page "+
		"beside it")
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
		return nil, fmt.Errorf("%w: BenchmarkResize leaves none without libvirtd and QEMU", err)
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
	for what, r := range found {
		n := len(r.Shim.Took)
		if n == 0 || n != len(r.Shim.Paused) || n != len(r.Libvirt.Took) ||
			n != len(r.Libvirt.Paused) {
			return nil, fmt.Errorf("%s: %q has %d and %d samples: want some, and as many of each",
				file, what, n, len(r.Libvirt.Took))
		}
	}
	return found, nil
}

func resizeRows(samples map[string]resizes, of func(resizeSamples) []float64) []report.Row {
	var rows []report.Row
	for _, what := range slices.Sorted(maps.Keys(samples)) {
		alone, shim := of(samples[what].Libvirt), of(samples[what].Shim)
		ours := many(what, mooring, shim)
		ratio := stats.RatioOfMedians(shim, alone)
		ours.Ratio, ours.Goals = &ratio, []report.Goal{{Of: report.Ratio, Most: mostResize}}
		rows = append(rows, many(what, libvirtAlone, alone), ours)
	}
	return rows
}
