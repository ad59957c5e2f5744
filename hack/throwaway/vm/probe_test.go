package vm

import (
	"testing"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
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

// A saved node has the accelerator that it was saved with. Its failure says nothing about KVM.
func TestFailedResumeIsNoVerdict(t *testing.T) {
	store, err := cache.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	img := &image.Image{Kernel: "/nonexistent", QEMU: t.TempDir()}
	_, err = Boot(t.Context(), img, t.TempDir(), Options{Accelerator: KVM, Store: store})
	if err == nil {
		t.Fatal("a node without a QEMU boots")
	}
	known, err := verdictOf(store, Config{Kernel: img.Kernel, QEMU: img.QEMU})
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := known.read(); ok {
		t.Errorf("recorded %q", got)
	}
}
