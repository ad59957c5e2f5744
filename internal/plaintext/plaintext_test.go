package plaintext_test

import (
	"testing"

	"github.com/mooring-vm/mooring/internal/plaintext"
)

func TestOneLine(t *testing.T) {
	if got, want := plaintext.OneLine("a\nb\n\nc"), "a; b; ; c"; got != want {
		t.Errorf("OneLine = %q, want %q", got, want)
	}
}

func TestPrintable(t *testing.T) {
	if got, want := plaintext.Printable("größe\n\x1b[31m\t\xff", '?'),
		"größe\n?[31m?\ufffd"; got != want {
		t.Errorf("Printable = %q, want %q", got, want)
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"abcdef", 6, "abcdef"},
		{"abcdefg", 6, "abc..."},
		{"abööö", 6, "ab..."},
		{"öööö", 4, "..."},
		{"abcd", 3, "..."},
	} {
		if got := plaintext.Cut(c.text, c.limit); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.text, c.limit, got, c.want)
		}
	}
}
