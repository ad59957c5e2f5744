package agent

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/mooring-vm/mooring/internal/asynclog"
)

// Log formats.
const (
	formatText = "text"
	formatJSON = "json"
)

const (
	// logQueue is how many bytes of the log may wait for a reader.
	logQueue = 1 << 20
	// logFlush is how long the log may hold up the agent's end.
	logFlush = time.Second
)

// openLog returns a logger that waits for nobody: NRI handlers log, and a journal
// that is stuck must not hold up the node's containers. Closing writes what still
// waits.
func openLog(w io.Writer, level slog.Level, format string) (logger *slog.Logger, closeLog func(), err error) {
	direct, err := newLogger(w, level, format)
	if err != nil {
		return nil, nil, err
	}
	queue := asynclog.New(w, logQueue, func(lines uint64) {
		direct.Warn("log lines were dropped: they were not read in time", "lines", lines)
	})
	logger, err = newLogger(queue, level, format)
	return logger, func() { queue.Close(logFlush) }, err
}

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

// PrintError writes the error that ends the program, unless nobody reads w: then
// the program ends without.
func PrintError(w io.Writer, err error) {
	queue := asynclog.New(w, logQueue, func(uint64) {})
	fmt.Fprintln(queue, "error:", err)
	queue.Close(logFlush)
}
