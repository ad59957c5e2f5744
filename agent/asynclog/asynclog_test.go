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

// report says on out how many lines were dropped.
func report(out io.Writer) func(uint64) {
	return func(lines uint64) { fmt.Fprintf(out, "%d lines dropped\n", lines) }
}

func write(t *testing.T, w io.Writer, line string) {
	t.Helper()
	if n, err := io.WriteString(w, line); n != len(line) || err != nil {
		t.Errorf("Write(%q) = %d, %v", line, n, err)
	}
}

// gate is a reader that can stop reading.
type gate struct {
	mu  sync.Mutex
	got bytes.Buffer
	let chan struct{} // closed: everything passes
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.let
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
		g := &gate{let: make(chan struct{})}
		close(g.let)
		w := asynclog.New(g, 1<<20, report(g))
		var want strings.Builder
		for i := range 1000 {
			line := fmt.Sprintf("line %d\n", i)
			want.WriteString(line)
			write(t, w, line)
		}
		w.Close(time.Second)
		if g.String() != want.String() {
			t.Errorf("%d bytes arrived, want %d in the order they were written", len(g.String()), want.Len())
		}
	})
}

// Lines arrive while the writer is open, not only at its end.
func TestFlowsWhileOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{let: make(chan struct{})}
		close(g.let)
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

func TestDropsAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{let: make(chan struct{})}
		w := asynclog.New(g, 8, report(g))
		write(t, w, "first\n")
		synctest.Wait() // it hangs in the reader
		for _, line := range []string{"12345\n", "too long\n", "again\n", "x\n"} {
			write(t, w, line)
		}
		close(g.let)
		synctest.Wait()
		write(t, w, "last\n")
		w.Close(time.Second)
		if want := "first\n12345\nx\n2 lines dropped\nlast\n"; g.String() != want {
			t.Errorf("log %q, want %q", g.String(), want)
		}
	})
}

// What cannot be written must not hold up the end.
func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{let: make(chan struct{})}
		w := asynclog.New(g, 100, report(g))
		write(t, w, "line\n")
		start := time.Now()
		w.Close(time.Second)
		if took := time.Since(start); took != time.Second {
			t.Errorf("Close took %s, want the second that it was given", took)
		}
		write(t, w, "too late\n")
		close(g.let) // the goroutine ends with the test
		synctest.Wait()
		if got := g.String(); got != "line\n" {
			t.Errorf("log %q, want the line from before", got)
		}
	})
}

// The pipe to a journal that is stuck: nobody reads, and its buffer is full.
func TestPipeThatNobodyReads(t *testing.T) {
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
		t.Errorf("%d bytes arrived, and nothing says that lines were dropped", len(got))
	}
}
