package api

import (
	"strings"
	"testing"
)

func TestInvalidErrorText(t *testing.T) {
	for _, c := range []struct {
		err  InvalidError
		want string
	}{
		{InvalidError{ValueKey, "16Gb", "want x"},
			`annotation value.memlock.mooring.dev: "16Gb": want x`},
		{InvalidError{"", "16Gb", "want x"}, `"16Gb": want x`},
		{InvalidError{"a b\n.mooring.dev", "", "want x"},
			`annotation "a b\n.mooring.dev": "": want x`},
		{InvalidError{"a\u2009b.mooring.dev", "\u2009\u202e\x1b", "want x"},
			`annotation "a\u2009b.mooring.dev": "\u2009\u202e\x1b": want x`},
		{InvalidError{"", strings.Repeat("x", 81), "want x"}, `"` + strings.Repeat("x", 80) +
			`"...: want x`},
		{InvalidError{"", strings.Repeat("x", 79) + "ü", "want x"}, `"` + strings.Repeat("x", 79) +
			`"...: want x`},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
