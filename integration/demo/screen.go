package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// width is the greatest number of columns of a line.
const width = 100

// screen prints the demonstration. Its methods are not safe for concurrent use.
type screen struct {
	out      io.Writer
	terminal bool // a terminal gets colours, and a progress line that rewrites itself
}

func newScreen(out *os.File) *screen {
	return &screen{out: out, terminal: term.IsTerminal(int(out.Fd()))}
}

// style is a text attribute of a terminal: the number of an SGR escape sequence.
type style int

const (
	bold  style = 1
	faint style = 2
	red   style = 31
	green style = 32
)

// in returns text in a style. Terminals alone get the escape sequence, unless $NO_COLOR is set.
func (s *screen) in(style style, text string) string {
	if !s.terminal || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", style, text)
}

// part prints the heading of a part.
func (s *screen) part(number, of int, title, about string) {
	fmt.Fprintf(s.out, "\n%s\n", s.in(bold, fmt.Sprintf("%d of %d  %s", number, of, title)))
	for _, line := range wrap(about, width-8) {
		fmt.Fprintf(s.out, "        %s\n", line)
	}
}

// step prints the first line of a step.
func (s *screen) step(text string) { s.hanging("--> ", text) }

// detail prints a further line of a step, such as an annotation of its pod.
func (s *screen) detail(text string) {
	for _, line := range wrap(text, width-8) {
		fmt.Fprintf(s.out, "        %s\n", s.in(faint, line))
	}
}

// result prints the outcome of a check.
func (s *screen) result(ok bool, text string) {
	mark := s.in(green, "ok   ")
	if !ok {
		mark = s.in(red, "WRONG")
	}
	lines := wrap(text, width-8)
	fmt.Fprintf(s.out, "  %s %s\n", mark, lines[0])
	for _, line := range lines[1:] {
		fmt.Fprintf(s.out, "        %s\n", line)
	}
}

// output prints a command and its output. It cuts lines that are too long.
func (s *screen) output(command, output string) {
	fmt.Fprintf(s.out, "\n    %s\n", s.in(bold, command))
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\n ")
		fmt.Fprintf(s.out, "    %s\n", line[:min(len(line), width-4)])
	}
	fmt.Fprintln(s.out)
}

// line prints a paragraph.
func (s *screen) line(text string) { s.hanging("", text) }

// hanging prints text with a lead on the first line and an indent on the other lines.
func (s *screen) hanging(lead, text string) {
	for i, line := range wrap(text, width-len(lead)) {
		if i > 0 {
			lead = strings.Repeat(" ", len(lead))
		}
		fmt.Fprintln(s.out, lead+line)
	}
}

// wrap breaks text into lines of at most limit columns. It cuts no words.
func wrap(text string, limit int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) <= limit:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// How often the progress line appears. A log gets fewer lines than a terminal.
const (
	terminalProgress = time.Second
	logProgress      = 15 * time.Second
)

// during calls do, and meanwhile shows a progress line with the elapsed time.
func (s *screen) during(activity string, do func() error) error {
	every := logProgress
	if s.terminal {
		every = terminalProgress
	}
	done := make(chan struct{})
	var printing sync.WaitGroup
	printing.Go(func() { s.progress(activity, every, done) })
	err := do()
	close(done)
	printing.Wait()
	return err
}

func (s *screen) progress(activity string, every time.Duration, done <-chan struct{}) {
	began := time.Now()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-done:
			if s.terminal {
				fmt.Fprint(s.out, "\r\x1b[K") // clear the line
			}
			return
		}
		line := fmt.Sprintf("    ... %s, %v", activity, time.Since(began).Round(time.Second))
		if s.terminal {
			fmt.Fprintf(s.out, "\r\x1b[K%s", s.in(faint, line[:min(len(line), width)]))
		} else {
			fmt.Fprintln(s.out, line)
		}
	}
}
