package main

import (
	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/integration/bench/report"
)

// renderCommand writes the page anew, after its text has changed.
func renderCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "render FILE.json",
		Short: "Render figures to FILE.md",
		Args:  cobra.ExactArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return report.RenderFile(args[0]) },
	}
}
