package guest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"

	"github.com/mooring-vm/mooring/hack/kindcluster"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
	"github.com/mooring-vm/mooring/hack/throwaway/vm"
)

// TestSavedKey changes one input after the other. A saved state fits none of the other machines.
func TestSavedKey(t *testing.T) {
	key := func(d disk, c kindcluster.Options, a vm.Accelerator) cache.Key {
		t.Helper()
		k, err := savedKey(&d, c, a)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	d := disk{image: image.Image{Kernel: "/k1/kernel", Disk: "/d1/disk", QEMU: "/q1/tree"},
		initramfs: "/d1/initramfs"}
	cluster := kindcluster.Options{Image: "node:v1", OwnNetwork: true, Emulated: true}
	first := key(d, cluster, vm.TCG)
	if again := key(d, cluster, vm.TCG); again != first {
		t.Errorf("got %s, then %s for equal inputs", first, again)
	}
	otherQEMU, otherKernel, otherDisk, worker := d, d, d, cluster
	otherQEMU.image.QEMU = "/q2/tree"
	otherKernel.image.Kernel = "/k2/kernel"
	otherDisk.image.Disk = "/d2/disk"
	worker.Workers = 1
	for name, got := range map[string]cache.Key{
		"accelerator": key(d, cluster, vm.KVM),
		"QEMU":        key(otherQEMU, cluster, vm.TCG),
		"kernel":      key(otherKernel, cluster, vm.TCG),
		"disk":        key(otherDisk, cluster, vm.TCG),
		"workers":     key(d, worker, vm.TCG),
	} {
		if got == first {
			t.Errorf("another %s has the same key", name)
		}
	}
}

// TestMachineOfTheKey expects the options of each boot in the command that savedKey hashes.
func TestMachineOfTheKey(t *testing.T) {
	img := &image.Image{}
	less := nodeOptions()
	less.MemoryMiB /= 2
	with := func(o vm.Options) cache.Key {
		return cache.KeyOf(vm.CommandLine(img, o)...)
	}
	if with(nodeOptions()) == with(less) {
		t.Error("a node with half the memory has the same key")
	}
}

func TestStartAgain(t *testing.T) {
	store, err := cache.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	broken := func() *cache.Entry {
		t.Helper()
		e, err := store.Get(t.Context(), savedCache, "key",
			func(context.Context, string) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	log := slog.New(slog.DiscardHandler)
	for name, c := range map[string]struct {
		err     error
		dropped bool
	}{
		"a failed resume": {errors.Join(&resumeError{errors.New("no device")}), true},
		"a failed build":  {errors.New("no space"), false},
	} {
		dir, attempts := "", 0
		g, err := startAgain(t.Context(), store, log, func() (*Guest, error) {
			attempts++
			if attempts > 1 {
				return &Guest{}, nil
			}
			e := broken()
			dir = e.Dir
			return nil, errors.Join(c.err, e.Close())
		})
		_, missing := os.Stat(dir)
		if (g != nil) != c.dropped || (err == nil) != c.dropped ||
			os.IsNotExist(missing) != c.dropped {
			t.Errorf("%s: guest %v, error %v, entry %v", name, g, err, missing)
		}
	}
}

// TestStartAgainKeepsUsedNodes expects a node in use by another process to stay in the cache.
func TestStartAgainKeepsUsedNodes(t *testing.T) {
	store, err := cache.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	used, err := store.Get(t.Context(), savedCache, "key",
		func(context.Context, string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	failed := &resumeError{errors.New("no device")}
	_, err = startAgain(t.Context(), store, slog.New(slog.DiscardHandler),
		func() (*Guest, error) { return nil, failed })
	if !errors.Is(err, failed.err) {
		t.Errorf("got %v, want the second failure", err)
	}
	if _, err := os.Stat(used.Dir); err != nil {
		t.Error(err)
	}
}
