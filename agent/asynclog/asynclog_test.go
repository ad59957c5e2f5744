package asynclog_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/agent/asynclog"
)

// report writes the number of dropped lines to out.
func report(out io.Writer) func(uint64) {
	return func(lines uint64) { fmt.Fprintf(out, "%d lines dropped\n", lines) }
}

func write(t *testing.T, w io.Writer, line string) {
	t.Helper()
	if n, err := io.WriteString(w, line); n != len(line) || err != nil {
		t.Errorf("Write(%q) = %d, %v", line, n, err)
	}
}

// gate is a writer that blocks until open is closed.
type gate struct {
	mu   sync.Mutex
	got  bytes.Buffer
	open chan struct{}
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.got.Write(p)
}

func (g *gate) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.got.String()
}

func TestEverythingArrivesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		close(g.open)
		w := asynclog.New(g, 1<<20, report(g))
		var want strings.Builder
		for i := range 1000 {
			line := fmt.Sprintf("line %d\n", i)
			want.WriteString(line)
			write(t, w, line)
		}
		w.Close(time.Second)
		if g.String() != want.String() {
			t.Errorf("%d bytes arrived, want %d in the order they were written",
				len(g.String()), want.Len())
		}
	})
}

func TestLinesArriveBeforeClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		close(g.open)
		w := asynclog.New(g, 100, report(g))
		for _, line := range []string{"a\n", "b\n"} {
			write(t, w, line)
			synctest.Wait()
			if !strings.HasSuffix(g.String(), line) {
				t.Errorf("after %q the log is %q", line, g.String())
			}
		}
		w.Close(time.Second)
	})
}

func TestReportsDroppedLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		w := asynclog.New(g, 8, report(g))
		write(t, w, "first\n")
		synctest.Wait() // the line blocks in the gate
		for _, line := range []string{"12345\n", "too long\n", "again\n", "x\n"} {
			write(t, w, line)
		}
		close(g.open)
		synctest.Wait()
		write(t, w, "last\n")
		w.Close(time.Second)
		if want := "first\n12345\nx\n2 lines dropped\nlast\n"; g.String() != want {
			t.Errorf("log %q, want %q", g.String(), want)
		}
	})
}

func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		w := asynclog.New(g, 100, report(g))
		write(t, w, "line\n")
		start := time.Now()
		w.Close(time.Second)
		if took := time.Since(start); took != time.Second {
			t.Errorf("Close took %s, want its timeout of a second", took)
		}
		write(t, w, "too late\n")
		close(g.open) // the goroutine ends with the test
		synctest.Wait()
		if got := g.String(); got != "line\n" {
			t.Errorf("log %q, want the first line only", got)
		}
	})
}

// The pipe stands for a journal that is stuck at first: the writes fill the pipe's buffer before a
// reader starts.
func TestPipeWithoutAReader(t *testing.T) {
	r, stuck, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w := asynclog.New(stuck, 1<<10, report(stuck))
	line := strings.Repeat("x", 1023) + "\n"
	for range 1000 { // a pipe holds 64 KiB
		write(t, w, line)
	}
	read := make(chan string)
	go func() {
		all, _ := io.ReadAll(r)
		read <- string(all)
	}()
	w.Close(time.Minute)
	if err := stuck.Close(); err != nil {
		t.Error(err)
	}
	if got := <-read; !strings.Contains(got, " lines dropped\n") {
		t.Errorf("%d bytes arrived, without a report of dropped lines", len(got))
	}
}
