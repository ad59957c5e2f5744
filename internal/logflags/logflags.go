// Package logflags has the flags for the log of Mooring's programs.
package logflags

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// Formats of the log.
const (
	Text = "text"
	JSON = "json"
)

// Add adds --log-level and --log-format. The present values are the defaults.
func Add(flags *pflag.FlagSet, level *slog.Level, format *string) {
	flags.TextVar(level, "log-level", *level, "debug, info, warn or error")
	flags.StringVar(format, "log-format", *format, Text+" or "+JSON)
}

// New returns a logger to w for messages of at least this level. For an unknown format, the
// error names the flag.
func New(w io.Writer, level slog.Level, format string) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: level}
	switch format {
	case Text:
		return slog.New(slog.NewTextHandler(w, options)), nil
	case JSON:
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("--log-format %q: want %s or %s", format, Text, JSON)
}
