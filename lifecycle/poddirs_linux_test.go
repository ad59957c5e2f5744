package lifecycle_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/lifecycle"
)

func openPodDirs(t *testing.T, root string) *lifecycle.PodDirs {
	t.Helper()
	d, err := lifecycle.OpenPodDirs(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func checkMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode(); got != fs.ModeDir|want {
		t.Errorf("mode of %s = %s, want a directory of %s", path, got, want)
	}
}

func TestPodDirsCreate(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077)) // must not matter
	root := t.TempDir()
	d := openPodDirs(t, root)
	const uid = "6f1b7c1e-0000-4000-8000-000000000000"
	for range 2 { // the second time it is there already
		dir, err := d.Create(uid)
		if err != nil {
			t.Fatal(err)
		}
		want := lifecycle.PodDir{Path: filepath.Join(root, "pods", uid), Writable: filepath.Join(root, "pods", uid, "pod")}
		if dir != want || d.Dir(uid) != want {
			t.Errorf("Create = %+v, Dir = %+v, want %+v", dir, d.Dir(uid), want)
		}
		checkMode(t, filepath.Join(root, "pods"), 0o700)
		checkMode(t, dir.Path, 0o755)
		checkMode(t, dir.Writable, 0o777)
		if err := os.Chmod(dir.Writable, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPodDirsCreateRefusesNames(t *testing.T) {
	d := openPodDirs(t, t.TempDir())
	for _, uid := range []string{"", ".", "..", "../x", "a/b", "/etc", ".hidden", "-a", "a\x00b", strings.Repeat("a", 129), "ä"} {
		if _, err := d.Create(uid); err == nil {
			t.Errorf("Create(%q) = no error", uid)
		}
		if err := d.Discard(uid); err == nil {
			t.Errorf("Discard(%q) = no error", uid)
		}
	}
}

func TestPodDirsCreateFollowsNoLinks(t *testing.T) {
	for name, plant := range map[string]func(t *testing.T, root, target string){
		"in place of the pod's directory": func(t *testing.T, root, target string) {
			symlink(t, target, filepath.Join(root, "pods", "uid"))
		},
		"in place of the writable part": func(t *testing.T, root, target string) {
			mkdir(t, filepath.Join(root, "pods", "uid"))
			symlink(t, target, filepath.Join(root, "pods", "uid", "pod"))
		},
		"a file in place of the writable part": func(t *testing.T, root, _ string) {
			mkdir(t, filepath.Join(root, "pods", "uid"))
			writeFile(t, filepath.Join(root, "pods", "uid", "pod"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, target := t.TempDir(), t.TempDir()
			d := openPodDirs(t, root)
			plant(t, root, target)
			if _, err := d.Create("uid"); err == nil {
				t.Error("Create = no error")
			}
			checkMode(t, target, mode(t, target))
			if got := names(t, target); len(got) != 0 {
				t.Errorf("something was made behind the link: %v", got)
			}
		})
	}
}

func TestOpenPodDirsFollowsNoLinks(t *testing.T) {
	root := t.TempDir()
	symlink(t, t.TempDir(), filepath.Join(root, "pods"))
	if d, err := lifecycle.OpenPodDirs(root); err == nil {
		d.Close()
		t.Error("OpenPodDirs = no error")
	}
}

func TestPodDirsDiscard(t *testing.T) {
	root := t.TempDir()
	d := openPodDirs(t, root)
	for range 3 { // the same pod again and again, before the trash is emptied
		dir, err := d.Create("uid")
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir.Writable, "heartbeat"))
		if err := d.Discard("uid"); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir.Path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after Discard: %v, want it gone", err)
		}
	}
	if err := d.Discard("uid"); err != nil {
		t.Errorf("Discard of what is not there: %v", err)
	}
	emptyTrash(t, d, root)
}

func emptyTrash(t *testing.T, d *lifecycle.PodDirs, root string) {
	t.Helper()
	if err := d.EmptyTrash(context.Background()); err != nil {
		t.Errorf("EmptyTrash: %v", err)
	}
	if left := names(t, filepath.Join(root, "trash")); len(left) != 0 {
		t.Errorf("left in trash: %.10q", left)
	}
}

// What a pod left behind must neither lead out of its directory nor be too much.
func TestEmptyTrashOfHostilePods(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, dir, outside string){
		"links out": func(t *testing.T, dir, outside string) {
			symlink(t, outside, filepath.Join(dir, "link"))
			symlink(t, "../../..", filepath.Join(dir, "up"))
			symlink(t, filepath.Join(outside, "precious"), filepath.Join(dir, "file"))
		},
		"links to links": func(t *testing.T, dir, _ string) {
			symlink(t, "b", filepath.Join(dir, "a"))
			symlink(t, "a", filepath.Join(dir, "b"))
		},
		"deeper than file descriptors go": func(t *testing.T, dir, _ string) { nest(t, dir, 3000) },
		"more than is read at once": func(t *testing.T, dir, _ string) {
			for i := range 500 {
				writeFile(t, filepath.Join(dir, strings.Repeat("x", i%200+1)+string(rune('a'+i/200))))
			}
		},
		"directories without permissions": func(t *testing.T, dir, _ string) {
			mkdir(t, filepath.Join(dir, "closed"))
			writeFile(t, filepath.Join(dir, "closed", "file"))
			if err := os.Chmod(filepath.Join(dir, "closed"), 0); err != nil {
				t.Fatal(err)
			}
		},
		"names that deletion uses": func(t *testing.T, dir, _ string) {
			for _, name := range []string{"moved.1", "moved.2", "moved.3"} {
				mkdir(t, filepath.Join(dir, name))
				mkdir(t, filepath.Join(dir, name, "moved.1"))
				writeFile(t, filepath.Join(dir, name, "moved.1", "moved.2"))
			}
		},
		"a socket and a pipe": func(t *testing.T, dir, _ string) {
			if err := errors.Join(unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600), unix.Mknod(filepath.Join(dir, "socket"), unix.S_IFSOCK|0o600, 0)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, outside := t.TempDir(), t.TempDir()
			writeFile(t, filepath.Join(outside, "precious"))
			d := openPodDirs(t, root)
			dir, err := d.Create("uid")
			if err != nil {
				t.Fatal(err)
			}
			leave(t, dir.Writable, outside)
			if err := d.Discard("uid"); err != nil {
				t.Fatal(err)
			}
			emptyTrash(t, d, root)
			if got := names(t, outside); !slices.Equal(got, []string{"precious"}) {
				t.Errorf("outside = %v, want it untouched", got)
			}
		})
	}
}

// nest makes directories in each other, deeper than a path can name.
func nest(t *testing.T, dir string, depth int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range depth {
		if err := unix.Mkdirat(fd, "d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
}

func TestEmptyTrashStops(t *testing.T) {
	d := openPodDirs(t, t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := d.EmptyTrash(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("EmptyTrash = %v, want it to be cancelled", err)
	}
}

func TestPodDirsRetain(t *testing.T) {
	root := t.TempDir()
	d := openPodDirs(t, root)
	for _, uid := range []string{"a", "b", "c"} {
		if _, err := d.Create(uid); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Retain(func(uid string) bool { return uid == "b" }); err != nil {
		t.Fatal(err)
	}
	if got := names(t, filepath.Join(root, "pods")); !slices.Equal(got, []string{"b"}) {
		t.Errorf("directories = %v, want b", got)
	}
}

// An agent that starts again finds what the last one left in trash.
func TestTrashOfTheLastAgent(t *testing.T) {
	root := t.TempDir()
	for range 2 {
		d := openPodDirs(t, root)
		if _, err := d.Create("uid"); err != nil {
			t.Fatal(err)
		}
		if err := d.Discard("uid"); err != nil {
			t.Fatal(err)
		}
	}
	emptyTrash(t, openPodDirs(t, root), root)
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func symlink(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
}
