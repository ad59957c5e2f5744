// Package asynclog writes a log without blocking the program that logs.
package asynclog

import (
	"io"
	"sync"
	"time"
)

// Writer passes lines to another writer, in a goroutine of its own. Write never blocks. While
// the other writer blocks, Writer keeps a bounded number of bytes, and drops and counts
// further lines. It is safe for concurrent use.
type Writer struct {
	out    io.Writer
	limit  int
	report func(lines uint64)
	wake   chan struct{}
	ended  chan struct{}

	mu      sync.Mutex // never held during a write to out
	pending []byte
	dropped uint64 // since the last report
	closed  bool
}

// New returns a writer to out that keeps up to limit bytes. After lines were dropped and out
// accepts data again, the writer calls report with their number. report may write to out. The
// caller must call Close.
func New(out io.Writer, limit int, report func(lines uint64)) *Writer {
	w := &Writer{
		out: out, limit: limit, report: report,
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	go w.run()
	return w
}

// Write queues one line of the log, or drops it. It always succeeds.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.pending)+len(line) > w.limit {
		w.dropped++
		return len(line), nil
	}
	w.pending = append(w.pending, line...)
	w.wakeWriter()
	return len(line), nil
}

// Close waits until all lines are written, at most for timeout. Then it abandons the
// remaining lines and the goroutine. Later writes are dropped. It must be called once.
func (w *Writer) Close(timeout time.Duration) {
	w.mu.Lock()
	w.closed = true
	w.wakeWriter()
	w.mu.Unlock()
	select {
	case <-w.ended:
	case <-time.After(timeout):
	}
}

func (w *Writer) wakeWriter() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Writer) run() {
	defer close(w.ended)
	var lines []byte
	for range w.wake {
		var dropped uint64
		var closed bool
		lines, dropped, closed = w.take(lines)
		if len(lines) > 0 {
			_, _ = w.out.Write(lines) // an error has no other log to go to
		}
		if dropped > 0 {
			w.report(dropped)
		}
		if closed {
			return
		}
	}
}

// take empties the queue. The queue reuses the memory of empty.
func (w *Writer) take(empty []byte) (lines []byte, dropped uint64, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines, dropped, closed = w.pending, w.dropped, w.closed
	w.pending, w.dropped = empty[:0], 0
	return lines, dropped, closed
}
