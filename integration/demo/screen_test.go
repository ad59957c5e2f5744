package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWrap(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"empty":          {"", []string{""}},
		"fits":           {"one two", []string{"one two"}},
		"does not fit":   {"one two three", []string{"one two", "three"}},
		"a long word":    {"a verylongword", []string{"a", "verylongword"}},
		"several spaces": {"one   two", []string{"one two"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, wrap(test.text, 8)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestNoLineExceedsTheWidth(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out}
	long := strings.Repeat("word ", 60)
	s.part(1, 4, "TITLE", long)
	s.step(long)
	s.detail(long)
	s.result(true, long)
	s.result(false, long)
	s.line(long)
	s.output("node# mooring ps", strings.Repeat("x", 300)+"\nshort\n")
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimSuffix(line, "\n"); len(line) > width {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if got := out.String(); !strings.Contains(got, "  WRONG word") ||
		strings.Contains(got, "\x1b") {
		t.Errorf("got\n%s", got)
	}
}

func TestColoursOnATerminalOnly(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	if got := (&screen{terminal: true}).in(green, "ok"); got != "\x1b[32mok\x1b[0m" {
		t.Errorf("on a terminal: %q", got)
	}
	if got := (&screen{}).in(green, "ok"); got != "ok" {
		t.Errorf("in a log: %q", got)
	}
	t.Setenv("NO_COLOR", "1")
	if got := (&screen{terminal: true}).in(green, "ok"); got != "ok" {
		t.Errorf("with NO_COLOR: %q", got)
	}
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		wait := func() error { time.Sleep(2*logProgress + time.Second); return nil }
		if err := (&screen{out: &out}).during("building", wait); err != nil {
			t.Fatal(err)
		}
		if want := "    ... building, 15s\n    ... building, 30s\n"; out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	})
}
