package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPagesAreCurrent(t *testing.T) {
	rendered, err := render()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range rendered {
		got, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("`make generate` changes docs/reference/%s (-rendered +committed):\n%s", name,
				diff)
		}
	}
}
