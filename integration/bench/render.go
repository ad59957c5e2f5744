package main

import (
	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/integration/bench/report"
)

//go:generate go run . render benchmarks.json ../../docs/reference

// renderCommand writes the pages of docs/reference anew, after their text or a figure has changed.
func renderCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "render FILE.json DIR",
		Short: "Render figures to pages in DIR",
		Args:  cobra.ExactArgs(2),
		RunE:  func(_ *cobra.Command, args []string) error { return report.RenderFile(args[0], args[1]) },
	}
}
