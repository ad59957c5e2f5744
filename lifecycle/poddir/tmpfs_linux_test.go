package poddir_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/lifecycle/poddir"
)

// inMountNamespace calls test in a new mount namespace. MOORING_REQUIRE_MOUNT makes missing rights
// a failure.
func inMountNamespace(t *testing.T, test func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		// for good: the thread ends with the goroutine, and the namespace with it
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			test()
		}
		done <- err
	}()
	err := <-done
	switch {
	case err != nil && os.Getenv("MOORING_REQUIRE_MOUNT") != "":
		t.Fatalf("cannot mount, and MOORING_REQUIRE_MOUNT is set: %v", err)
	case err != nil:
		t.Skipf("cannot mount: %v", err)
	}
}

func TestMountPodDirs(t *testing.T) {
	root := filepath.Join(t.TempDir(), "mooring")
	inMountNamespace(t, func() {
		for range 2 { // the second call finds it
			if err := poddir.Mount(root); err != nil {
				t.Error(err)
			}
			if err := poddir.CheckMount(root); err != nil {
				t.Error(err)
			}
		}
		var st unix.Statfs_t
		if err := unix.Statfs(root, &st); err != nil {
			t.Error(err)
		}
		if size := st.Blocks * uint64(st.Bsize); size != 64<<20 || st.Files != 32<<10 {
			t.Errorf("%d bytes, %d inodes, want 64 MiB and 32 Ki", size, st.Files)
		}
	})
}

func TestMountPodDirsRefusesOtherFileSystems(t *testing.T) {
	root := t.TempDir()
	inMountNamespace(t, func() {
		if err := unix.Mount("x", root, "tmpfs", unix.MS_NOSUID, "size=0,nr_inodes=0"); err != nil {
			t.Error(err)
		}
		err := poddir.Mount(root)
		for _, want := range []string{root, "with a size", "with nr_inodes", "nodev", "noexec"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error = %v, want one with %q", err, want)
			}
		}
		if err != nil && strings.Contains(err.Error(), "nosuid") {
			t.Errorf("error %v, want none about nosuid, which is set", err)
		}
	})
}

func TestCheckPodDirsNeedsAMountOfTheirOwn(t *testing.T) {
	if err := poddir.CheckMount(t.TempDir()); err == nil ||
		!strings.Contains(err.Error(), "tmpfs of their own") {
		t.Errorf("error = %v, want one that asks for a tmpfs", err)
	}
	if err := poddir.CheckMount(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("CheckMount of a missing directory succeeds")
	}
}
