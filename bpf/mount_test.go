package bpf

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMountFS(t *testing.T) {
	dir := t.TempDir()
	err := MountFS("mooring", dir)
	if errors.Is(err, unix.EPERM) {
		skipOrFail(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	if err := wantBPFFS(dir); err != nil {
		t.Error(err)
	}
	if err := MountFS("mooring", dir); err != nil {
		t.Errorf("the second time: %v", err)
	}
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	if wantBPFFS(dir) == nil {
		t.Error("there were two mounts")
	}
}

func TestMountFSWithoutDirectory(t *testing.T) {
	err := MountFS("mooring", filepath.Join(t.TempDir(), "bpf"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
