package main

import (
	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/integration/bench/report"
)

//go:generate go run . render benchmarks.json ../../docs/reference

// renderCommand renders the pages of docs/reference again after a change of text or figures.
func renderCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "render FILE.json DIR",
		Short: "Render figures to pages in DIR",
		Args:  cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			return report.RenderFile(args[0], args[1])
		},
	}
}
