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
	// logQueue is the greatest size of unwritten log lines, in bytes.
	logQueue = 1 << 20
	// logFlush bounds the delay of the agent's end by its log.
	logFlush = time.Second
)

// openLog returns a logger that never blocks: NRI handlers log, and a stuck journal must not
// delay the node's containers. closeLog writes the remaining lines.
func openLog(w io.Writer, level slog.Level, format string) (
	logger *slog.Logger, closeLog func(), err error,
) {
	direct, err := logflags.New(w, level, format)
	if err != nil {
		return nil, nil, err
	}
	queue := asynclog.New(w, logQueue, func(lines uint64) {
		direct.Warn("log lines were dropped: the reader was too slow", "lines", lines)
	})
	logger, err = logflags.New(queue, level, format)
	return logger, func() { queue.Close(logFlush) }, err
}

// PrintError writes the error that ends the program. It gives up after a second if w blocks.
func PrintError(w io.Writer, err error) {
	queue := asynclog.New(w, logQueue, func(uint64) {})
	fmt.Fprintln(queue, "error:", err)
	queue.Close(logFlush)
}
