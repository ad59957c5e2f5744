package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// launchersCommand runs launchers on a node for a measurement from outside.
func launchersCommand() *cobra.Command {
	var socket string
	var count int
	c := &cobra.Command{
		Use:    "launchers",
		Short:  "Run launchers with VMs, and a runtime that lists them, until the input ends",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			h, err := startLaunchers(socket, count, true)
			if err != nil {
				return err
			}
			fmt.Println("ready")
			_, _ = io.Copy(io.Discard, os.Stdin)
			return h.close()
		},
	}
	c.Flags().StringVar(&socket, "socket", "", "socket for plugins")
	c.Flags().IntVar(&count, "count", residents, "number of launchers")
	return c
}
