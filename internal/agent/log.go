package agent

import (
	"fmt"
	"io"
	"log/slog"
)

// Log formats.
const (
	formatText = "text"
	formatJSON = "json"
)

func newLogger(w io.Writer, level slog.Level, format string) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: level}
	switch format {
	case formatText:
		return slog.New(slog.NewTextHandler(w, options)), nil
	case formatJSON:
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("--log-format %q: want %s or %s", format, formatText, formatJSON)
}
