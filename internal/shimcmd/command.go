// Package shimcmd is the command line of mooring-shim.
package shimcmd

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/internal/buildinfo"
)

// Command returns the command. It logs to w.
func Command(build buildinfo.Info, w io.Writer) *cobra.Command {
	log := logging{w: w}
	root := &cobra.Command{
		Use:   "mooring-shim",
		Short: "Runs beside a VM's launcher: live resize, graceful shutdown, and headroom for KubeVirt",
		Args:  cobra.NoArgs,

		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Version:           build.String(),
	}
	flags := root.PersistentFlags()
	flags.TextVar(&log.level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	flags.StringVar(&log.format, "log-format", "text", "text or json")
	root.AddCommand(runCommand(&log), hookCommand(&log))
	return root
}

// logging makes the log once the flags are known.
type logging struct {
	w      io.Writer
	level  slog.Level
	format string
}

func (l *logging) open() (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: l.level}
	switch l.format {
	case "text":
		return slog.New(slog.NewTextHandler(l.w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(l.w, options)), nil
	}
	return nil, fmt.Errorf("--log-format %q: want text or json", l.format)
}
