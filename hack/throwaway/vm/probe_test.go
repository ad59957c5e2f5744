package vm

import (
	"testing"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

// A tree without a QEMU stands for all the ways in which KVM can fail.
func TestProbeFallsBackToTCG(t *testing.T) {
	c := Config{Kernel: "/nonexistent", QEMU: t.TempDir()}
	if bootsWithoutDisk(t.Context(), c, KVM) {
		t.Error("a guest that cannot start counts as booted")
	}
	store, err := cache.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Probe(t.Context(), store, c); err != nil || got != TCG {
		t.Errorf("got %v, %v, want TCG", got, err)
	}
}
