package poddir_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/lifecycle/poddir"
)

func checkTouched(t *testing.T, d *poddir.Dirs, want poddir.Touched) {
	t.Helper()
	got, err := d.Touched("uid")
	if err != nil || got.StopRequested != want.StopRequested ||
		!got.Heartbeat.Equal(want.Heartbeat) {
		t.Errorf("Touched = %+v, %v, want %+v", got, err, want)
	}
}

func touchAt(t *testing.T, path string, at time.Time) {
	t.Helper()
	if err := os.Chtimes(path, at, at); err != nil {
		t.Error(err)
	}
}

func TestTouched(t *testing.T) {
	d := openPodDirs(t, t.TempDir())
	dir := createPodDir(t, d, "uid")
	checkTouched(t, d, poddir.Touched{})
	// The node's clock may stand anywhere.
	for _, at := range []time.Time{time.Now(), time.Unix(0, 1), time.Unix(-1, 0),
		time.Unix(-1e9, 0), time.Unix(8e9, 7)} {
		touchAt(t, dir.Heartbeat, at)
		checkTouched(t, d, poddir.Touched{Heartbeat: at})
		touchAt(t, dir.Stop, at)
		checkTouched(t, d, poddir.Touched{StopRequested: true, Heartbeat: at})
		for range 2 { // the second call finds no request
			if err := d.ConfirmStop("uid"); err != nil {
				t.Fatal(err)
			}
			checkTouched(t, d, poddir.Touched{Heartbeat: at})
			checkTime(t, dir.Stop, time.Unix(0, 0))
		}
	}
}

// A half-made directory of a dead agent counts as untouched.
func TestTouchedWithUnfinishedFiles(t *testing.T) {
	root := t.TempDir()
	d := openPodDirs(t, root)
	part := oldLayout(t, filepath.Join(root, "pods", "uid"), "")
	for _, name := range []string{"heartbeat", "stop"} {
		if err := unix.Mkfifo(filepath.Join(part, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	checkTouched(t, d, poddir.Touched{})
}

func TestTouchedOfUnknownPod(t *testing.T) {
	d := openPodDirs(t, t.TempDir())
	for uid, notExist := range map[string]bool{"uid": true, "..": false, "": false, "a/b": false} {
		_, err := d.Touched(uid)
		for _, err := range []error{err, d.ConfirmStop(uid)} {
			if err == nil || errors.Is(err, fs.ErrNotExist) != notExist {
				t.Errorf("%q: %v", uid, err)
			}
		}
	}
}

// Links out of the directory and foreign files are errors.
func TestTouchedFollowsNoLinks(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	writeFile(t, outside)
	long := time.Unix(1700000000, 0)
	touchAt(t, outside, long)
	for name, plant := range map[string]func(t *testing.T, dir string){
		"link": func(t *testing.T, dir string) { symlink(t, outside, oldLayout(t, dir, "stop")) },
		"file": func(t *testing.T, dir string) { writeFile(t, oldLayout(t, dir, "stop")) },
		"link in place of a directory": func(t *testing.T, dir string) {
			mkdir(t, dir)
			symlink(t, filepath.Dir(outside), filepath.Join(dir, "pod"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			d := openPodDirs(t, root)
			dir := filepath.Join(root, "pods", "uid")
			plant(t, dir)
			if err := unix.Mkfifo(filepath.Join(dir, "pod", "heartbeat"), 0o600); err != nil &&
				name != "link in place of a directory" {
				t.Fatal(err)
			}
			if got, err := d.Touched("uid"); err == nil {
				t.Errorf("Touched = %+v, want an error", got)
			}
			d.ConfirmStop("uid") //nolint:errcheck // only its effect on outside counts
			checkTime(t, outside, long)
		})
	}
}

// A pod that holds its pipes open and fills them blocks no call.
func TestTouchedWithOpenPipes(t *testing.T) {
	d := openPodDirs(t, t.TempDir())
	dir := createPodDir(t, d, "uid")
	for _, path := range []string{dir.Heartbeat, dir.Stop} {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		for err == nil {
			_, err = unix.Write(fd, make([]byte, 4096))
		}
	}
	if got, err := d.Touched("uid"); err != nil || !got.StopRequested {
		t.Errorf("Touched = %+v, %v, want a stop request", got, err)
	}
	if err := d.ConfirmStop("uid"); err != nil {
		t.Error(err)
	}
	if got, err := d.Touched("uid"); err != nil || got.StopRequested {
		t.Errorf("Touched = %+v, %v, want no stop request", got, err)
	}
}

func TestPodDirsCreateMakesAMountPoint(t *testing.T) {
	root := t.TempDir()
	d := openPodDirs(t, root)
	dir := createPodDir(t, d, "uid")
	checkMode(t, dir.Hook, 0o444)
	if info, err := os.Stat(dir.Hook); err != nil || info.Size() != 0 {
		t.Errorf("%s is not empty: %v", dir.Hook, err)
	}
}

// An earlier agent created no mount point for the hook.
func TestPodDirsCreateUpgrades(t *testing.T) {
	d := openPodDirs(t, t.TempDir())
	dir := createPodDir(t, d, "uid")
	touched := time.Unix(1700000000, 0)
	touchAt(t, dir.Stop, touched)
	if err := os.Remove(dir.Hook); err != nil {
		t.Fatal(err)
	}
	checkTouched(t, d, poddir.Touched{StopRequested: true})
	createPodDir(t, d, "uid")
	checkMode(t, dir.Hook, 0o444)
	checkTime(t, dir.Stop, touched)
}

func TestPodDirsCreateReplacesTheMountPoint(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	for name, plant := range map[string]func(path string) error{
		"link":      func(path string) error { return os.Symlink(outside, path) },
		"directory": func(path string) error { return os.Mkdir(path, 0o755) },
		"pipe":      func(path string) error { return unix.Mkfifo(path, 0o444) },
		"socket":    func(path string) error { return unix.Mknod(path, unix.S_IFSOCK|0o444, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			d := openPodDirs(t, root)
			dir := filepath.Join(root, "pods", "uid")
			mkdir(t, dir)
			if err := plant(filepath.Join(dir, "hook")); err != nil {
				t.Fatal(err)
			}
			checkMode(t, createPodDir(t, d, "uid").Hook, 0o444)
			if _, err := os.Lstat(outside); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a file was created behind the link: %v", err)
			}
		})
	}
}
