package agent

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/mooring-vm/mooring/agent/asynclog"
	"github.com/mooring-vm/mooring/internal/logflags"
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
	direct, err := logflags.New(w, level, format)
	if err != nil {
		return nil, nil, err
	}
	queue := asynclog.New(w, logQueue, func(lines uint64) {
		direct.Warn("log lines were dropped: they were not read in time", "lines", lines)
	})
	logger, err = logflags.New(queue, level, format)
	return logger, func() { queue.Close(logFlush) }, err
}

// PrintError writes the error that ends the program, unless nobody reads w: then
// the program ends without.
func PrintError(w io.Writer, err error) {
	queue := asynclog.New(w, logQueue, func(uint64) {})
	fmt.Fprintln(queue, "error:", err)
	queue.Close(logFlush)
}
