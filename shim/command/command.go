// Package command is the command line of mooring-shim.
package command

import (
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/internal/buildinfo"
	"github.com/mooring-vm/mooring/internal/logflags"
)

// Command returns the command mooring-shim. It logs to w.
func Command(build buildinfo.Info, w io.Writer) *cobra.Command {
	log := logging{w: w, format: logflags.Text}
	root := &cobra.Command{
		Use: "mooring-shim",
		Short: "Runs beside a VM's launcher: live resize, graceful shutdown, and headroom for " +
			"KubeVirt",
		Args: cobra.NoArgs,

		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Version:           build.String(),
	}
	logflags.Add(root.PersistentFlags(), &log.level, &log.format)
	root.AddCommand(runCommand(&log), hookCommand(&log))
	return root
}

// logging holds the log flags, from which open makes the logger.
type logging struct {
	w      io.Writer
	level  slog.Level
	format string
}

func (l *logging) open() (*slog.Logger, error) { return logflags.New(l.w, l.level, l.format) }
