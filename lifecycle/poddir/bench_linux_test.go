package poddir_test

import (
	"os"
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/poddir"
)

// The cost of creating and discarding a pod's directory on a tmpfs.
func BenchmarkPodDirs(b *testing.B) {
	root, err := os.MkdirTemp("/dev/shm", "poddirs")
	if err != nil {
		b.Skipf("no tmpfs: %v", err)
	}
	defer os.RemoveAll(root)
	dirs, err := poddir.Open(root)
	if err != nil {
		b.Fatal(err)
	}
	defer dirs.Close()
	nobody := func(string) bool { return false }
	for b.Loop() {
		if _, err := dirs.Create("uid"); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := dirs.DiscardUnless("uid", nobody); err != nil {
			b.Fatal(err)
		}
		if err := dirs.EmptyTrash(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
