package poddir_test

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
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/lifecycle/poddir"
)

func openPodDirs(t *testing.T, root string) *poddir.Dirs {
	t.Helper()
	d, err := poddir.Open(root)
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
	if got := info.Mode(); got != want {
		t.Errorf("mode of %s = %s, want %s", path, got, want)
	}
}

const touchable = fs.ModeNamedPipe | 0o666

func TestPodDirsCreate(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077)) // must not matter
	root := t.TempDir()
	d := openPodDirs(t, root)
	const uid = "6f1b7c1e-0000-4000-8000-000000000000"
	path := filepath.Join(root, "pods", uid)
	want := poddir.Dir{Path: path, Heartbeat: path + "/pod/heartbeat", Stop: path + "/pod/stop",
		Hook: path + "/hook"}
	for range 2 { // the second call finds it
		dir := createPodDir(t, d, uid)
		if dir != want || d.Dir(uid) != want {
			t.Errorf("Create = %+v, Dir = %+v, want %+v", dir, d.Dir(uid), want)
		}
		checkMode(t, filepath.Join(root, "pods"), fs.ModeDir|0o700)
		checkMode(t, path, fs.ModeDir|0o755)
		checkMode(t, path+"/pod", fs.ModeDir|0o755)
		checkMode(t, dir.Heartbeat, touchable)
		checkMode(t, dir.Stop, touchable)
		checkMode(t, dir.Hook, 0o444)
		for name, mode := range map[string]fs.FileMode{path + "/pod": 0o777, dir.Stop: 0o644,
			dir.Hook: 0o600} {
			if err := os.Chmod(name, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func createPodDir(t *testing.T, d *poddir.Dirs, uid string) poddir.Dir {
	t.Helper()
	dir, err := d.Create(uid)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Kubelet retries, and a pod has several containers: Create must keep the times of touched files.
func TestPodDirsCreateKeepsTimes(t *testing.T) {
	d := openPodDirs(t, t.TempDir())
	dir := createPodDir(t, d, "uid")
	touched := time.Unix(1700000000, 0)
	checkTime(t, dir.Heartbeat, time.Unix(0, 0))
	checkTime(t, dir.Stop, time.Unix(0, 0))
	if err := os.Chtimes(dir.Stop, touched, touched); err != nil {
		t.Fatal(err)
	}
	createPodDir(t, d, "uid")
	checkTime(t, dir.Heartbeat, time.Unix(0, 0))
	checkTime(t, dir.Stop, touched)
}

func checkTime(t *testing.T, path string, want time.Time) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.ModTime(); !got.Equal(want) {
		t.Errorf("time of %s = %s, want %s", path, got, want)
	}
}

// An agent killed during Create leaves a file with a time, as if the pod had touched it.
func TestPodDirsCreateFinishes(t *testing.T) {
	root := t.TempDir()
	d := openPodDirs(t, root)
	part := filepath.Join(root, "pods", "uid", "pod")
	mkdir(t, filepath.Dir(part))
	mkdir(t, part)
	if err := unix.Mkfifo(filepath.Join(part, "stop"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := createPodDir(t, d, "uid")
	checkMode(t, dir.Stop, touchable)
	checkTime(t, dir.Stop, time.Unix(0, 0))
}

func TestPodDirsCreateRefusesNames(t *testing.T) {
	d := openPodDirs(t, t.TempDir())
	for _, uid := range []string{"", ".", "..", "../x", "a/b", "/etc", ".hidden", "-a", "a\x00b",
		strings.Repeat("a", 129), "ä"} {
		if _, err := d.Create(uid); err == nil {
			t.Errorf("Create(%q) = no error", uid)
		}
		if err := d.DiscardUnless(uid, noPod); err == nil {
			t.Errorf("DiscardUnless(%q) = no error", uid)
		}
	}
}

// Create replaces a foreign layout and follows no links.
func TestPodDirsCreateReplacesForeignFiles(t *testing.T) {
	for name, plant := range map[string]func(t *testing.T, dir, target string){
		"a link in place of the pod's directory": func(t *testing.T, dir, target string) {
			symlink(t, target, dir)
		},
		"a link in place of its subdirectory": func(t *testing.T, dir, target string) {
			mkdir(t, dir)
			symlink(t, target, filepath.Join(dir, "pod"))
		},
		"a file in place of its subdirectory": func(t *testing.T, dir, _ string) {
			mkdir(t, dir)
			writeFile(t, filepath.Join(dir, "pod"))
		},
		"a file of the pod": func(t *testing.T, dir, _ string) {
			writeFile(t, oldLayout(t, dir, "heartbeat"))
		},
		"a link of the pod": func(t *testing.T, dir, target string) {
			symlink(t, target, oldLayout(t, dir, "stop"))
		},
		"a directory of the pod": func(t *testing.T, dir, _ string) {
			mkdir(t, oldLayout(t, dir, "stop"))
		},
		"a socket of the pod": func(t *testing.T, dir, _ string) {
			if err := unix.Mknod(oldLayout(t, dir, "stop"), unix.S_IFSOCK|0o666, 0); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, target := t.TempDir(), t.TempDir()
			d := openPodDirs(t, root)
			plant(t, filepath.Join(root, "pods", "uid"), target)
			dir := createPodDir(t, d, "uid")
			checkMode(t, dir.Heartbeat, touchable)
			checkMode(t, dir.Stop, touchable)
			if got := names(t, target); len(got) != 0 {
				t.Errorf("a file was created behind the link: %v", got)
			}
			emptyTrash(t, d, root)
		})
	}
}

// inPart creates the directory layout of an earlier agent.
func oldLayout(t *testing.T, dir, name string) string {
	t.Helper()
	mkdir(t, dir)
	part := filepath.Join(dir, "pod")
	mkdir(t, part)
	if err := os.Chmod(part, 0o777); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(part, name)
}

func TestOpenPodDirsFollowsNoLinks(t *testing.T) {
	root := t.TempDir()
	symlink(t, t.TempDir(), filepath.Join(root, "pods"))
	if d, err := poddir.Open(root); err == nil {
		d.Close()
		t.Error("OpenPodDirs = no error")
	}
}

func TestPodDirsDiscard(t *testing.T) {
	root := t.TempDir()
	d := openPodDirs(t, root)
	for range 3 { // several directories of one pod in trash
		dir := createPodDir(t, d, "uid")
		if err := d.DiscardUnless("uid", noPod); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir.Path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after Discard: %v, want it gone", err)
		}
	}
	if err := d.DiscardUnless("uid", noPod); err != nil {
		t.Errorf("DiscardUnless of a missing directory: %v", err)
	}
	emptyTrash(t, d, root)
}

func noPod(string) bool { return false }

func emptyTrash(t *testing.T, d *poddir.Dirs, root string) {
	t.Helper()
	if err := d.EmptyTrash(context.Background()); err != nil {
		t.Errorf("EmptyTrash: %v", err)
	}
	if left := names(t, filepath.Join(root, "trash")); len(left) != 0 {
		t.Errorf("trash has %.10q, want it empty", left)
	}
}

// Pods of earlier agents could create files. A left-over link must not lead out of the directory.
func TestEmptyTrashOfEarlierPods(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, dir, outside string){
		"links out": func(t *testing.T, dir, outside string) {
			symlink(t, outside, filepath.Join(dir, "link"))
			symlink(t, "../../..", filepath.Join(dir, "up"))
			symlink(t, filepath.Join(outside, "precious"), filepath.Join(dir, "file"))
		},
		"nested directories": func(t *testing.T, dir, _ string) {
			if err := os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", 100)),
				0o755); err != nil {
				t.Fatal(err)
			}
		},
		"a socket and a pipe": func(t *testing.T, dir, _ string) {
			if err := errors.Join(unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
				unix.Mknod(filepath.Join(dir, "socket"), unix.S_IFSOCK|0o600, 0)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, outside := t.TempDir(), t.TempDir()
			writeFile(t, filepath.Join(outside, "precious"))
			d := openPodDirs(t, root)
			leave(t, filepath.Join(createPodDir(t, d, "uid").Path, "pod"), outside)
			if err := d.DiscardUnless("uid", noPod); err != nil {
				t.Fatal(err)
			}
			emptyTrash(t, d, root)
			if got := names(t, outside); !slices.Equal(got, []string{"precious"}) {
				t.Errorf("outside = %v, want it untouched", got)
			}
		})
	}
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

// Another handler may register the pod between the check and the removal of its directory.
func TestPodDirsDiscardUnless(t *testing.T) {
	d := openPodDirs(t, t.TempDir())
	dir := createPodDir(t, d, "uid")
	if err := d.DiscardUnless("uid", func(uid string) bool { return uid == "uid" }); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir.Path); err != nil {
		t.Errorf("the directory of a known pod: %v", err)
	}
	created := make(chan error, 1)
	err := d.DiscardUnless("uid", func(string) bool {
		go func() {
			_, err := d.Create("uid")
			created <- err
		}()
		return false
	})
	if err := errors.Join(err, <-created); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir.Path); err != nil {
		t.Errorf("the directory created during a discard: %v", err)
	}
}

// A restarted agent finds directories in trash.
func TestTrashOfAnEarlierAgent(t *testing.T) {
	root := t.TempDir()
	for range 2 {
		d := openPodDirs(t, root)
		if _, err := d.Create("uid"); err != nil {
			t.Fatal(err)
		}
		if err := d.DiscardUnless("uid", noPod); err != nil {
			t.Fatal(err)
		}
	}
	emptyTrash(t, openPodDirs(t, root), root)
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
