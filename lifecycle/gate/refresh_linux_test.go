package gate

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// newNode returns the root directory of a node with this hook; nil: without libvirt.
func newNode(t *testing.T, hook []byte) (root string) {
	t.Helper()
	root = t.TempDir()
	if hook == nil {
		return root
	}
	path := filepath.Join(root, HookPath)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, hook, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// filesOf returns the content of all files below a directory, by path.
func filesOf(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, root)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// An upgrade replaces an older hook only.
func TestRefresh(t *testing.T) {
	for name, c := range map[string]struct {
		hook    []byte
		changed bool
	}{
		"not installed": {nil, false}, "older": {[]byte("old"), true},
		"equal": {[]byte("new"), false}, "empty": {[]byte{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			root := newNode(t, c.hook)
			changed, err := Refresh(root, []byte("new"))
			if err != nil || changed != c.changed {
				t.Errorf("changed: %t, %v, want %t", changed, err, c.changed)
			}
			files := filesOf(t, root)
			if c.hook == nil && len(files) != 0 ||
				c.hook != nil && (len(files) != 1 || files[HookPath] != "new") {
				t.Errorf("files %q", files)
			}
			info, err := os.Stat(filepath.Join(root, HookPath))
			if c.hook != nil && (err != nil || info.Mode().Perm() != 0o755) {
				t.Errorf("%v, %v", info, err)
			}
		})
	}
}

// libvirt runs each program in qemu.d, so no other name than the hook's appears there, and the hook
// never goes away.
func TestRefreshInOneStep(t *testing.T) {
	root := newNode(t, []byte("old"))
	if err := os.WriteFile(filepath.Join(root, NewHookPath), []byte("of a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, filepath.Dir(filepath.Join(root, HookPath)),
		unix.IN_CREATE|unix.IN_MOVE|unix.IN_DELETE|unix.IN_MODIFY); err != nil {
		t.Fatal(err)
	}
	if _, err := Refresh(root, []byte("new")); err != nil {
		t.Fatal(err)
	}
	events := make([]byte, 4096)
	n, err := unix.Read(watch, events)
	if err != nil {
		t.Fatal(err)
	}
	name := string(bytes.Trim(events[unix.SizeofInotifyEvent:n], "\x00"))
	if events[4] != unix.IN_MOVED_TO || name != filepath.Base(HookPath) {
		t.Errorf("first event % x with name %q, want one move to the hook", events[:n], name)
	}
	if files := filesOf(t, root); len(files) != 1 {
		t.Errorf("files %q", files)
	}
}

// A link cannot lead the agent to a file outside of the node.
func TestRefreshFollowsNoLinkOutside(t *testing.T) {
	root, other := newNode(t, nil), newNode(t, []byte("old"))
	err := os.Symlink(filepath.Join(other, "etc"), filepath.Join(root, "etc"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = Refresh(root, []byte("new")); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if files := filesOf(t, other); files[HookPath] != "old" {
		t.Errorf("files %q", files)
	}
}
