package main

import (
	"strings"
	"testing"
)

func TestBadNumbers(t *testing.T) {
	for want, args := range map[string][]string{
		"0 arguments": nil,
		"2 arguments": {"1", "2"},
		`"x"`:         {"x"},
		`"0"`:         {"0"},
		`"-1"`:        {"-1"},
	} {
		if err := run(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s in the error", args, err, want)
		}
	}
}
