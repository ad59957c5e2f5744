// Package asynclog keeps those who log from waiting for those who read the log.
package asynclog

import (
	"io"
	"sync"
	"time"
)

// Writer passes what is written to it on to another writer, in a goroutine of its
// own. Write never waits: while nobody reads, up to a bound of bytes is kept, and
// what goes beyond is dropped and counted. Its methods may be called concurrently.
type Writer struct {
	out    io.Writer
	limit  int
	report func(lines uint64)
	wake   chan struct{}
	ended  chan struct{}

	mu      sync.Mutex // never held while writing to out
	pending []byte
	dropped uint64 // since the last report
	closed  bool
}

// New returns a writer to out that keeps up to limit bytes. When out takes
// something again after writes were dropped, report is called with their number
// and may write to out. Close has to be called.
func New(out io.Writer, limit int, report func(lines uint64)) *Writer {
	w := &Writer{out: out, limit: limit, report: report, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go w.run()
	return w
}

// Write takes one line of the log, or drops it. It always succeeds.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.pending)+len(line) > w.limit {
		w.dropped++
		return len(line), nil
	}
	w.pending = append(w.pending, line...)
	w.nudge()
	return len(line), nil
}

// Close waits until everything is written, but no longer than timeout: then it
// leaves the rest, and the goroutine, behind. What is written after Close is
// dropped. It must be called once.
func (w *Writer) Close(timeout time.Duration) {
	w.mu.Lock()
	w.closed = true
	w.nudge()
	w.mu.Unlock()
	select {
	case <-w.ended:
	case <-time.After(timeout):
	}
}

func (w *Writer) nudge() {
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
			_, _ = w.out.Write(lines) // there is nobody to tell
		}
		if dropped > 0 {
			w.report(dropped)
		}
		if closed {
			return
		}
	}
}

// take empties the queue, and gives it what was taken before to be filled again.
func (w *Writer) take(empty []byte) (lines []byte, dropped uint64, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines, dropped, closed = w.pending, w.dropped, w.closed
	w.pending, w.dropped = empty[:0], 0
	return lines, dropped, closed
}
