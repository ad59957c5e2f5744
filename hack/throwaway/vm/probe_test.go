package vm

import (
	"testing"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

// TestHopelessGuestsAreNotBooted has a QEMU tree without a QEMU, as a stand-in
// for every way that KVM can fail in.
func TestHopelessGuestsAreNotBooted(t *testing.T) {
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
