package artefacts

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

func TestOldArtefactsArePruned(t *testing.T) {
	store, err := cache.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for i := range kept + 3 {
		if err := os.MkdirAll(store.Dir("artefacts", fmt.Sprintf("20260101-0000%02d-x", i), "sub"),
			0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(store.Dir("artefacts", "mine"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Prune(store); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(store.Dir("artefacts", "*"))
	if err != nil || len(left) != kept+1 || filepath.Base(left[0]) != "20260101-000003-x" {
		t.Errorf("left: %v, %v, want the newest %d and what is not ours", left, err, kept)
	}
}
