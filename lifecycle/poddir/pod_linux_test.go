package poddir_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/lifecycle/poddir"
)

// podUser is an unprivileged user of a launcher. userNamespace is a launcher's root mapped to
// podUser on the node.
const podUser = 65534

var podCredentials = map[string]*syscall.SysProcAttr{
	"root":           {},
	"another user":   {Credential: &syscall.Credential{Uid: podUser, Gid: podUser}},
	"user namespace": userNamespace(),
}

func userNamespace() *syscall.SysProcAttr {
	ids := []syscall.SysProcIDMap{{HostID: podUser, Size: 1}}
	return &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids,
		GidMappings: ids}
}

// shell runs a script as a process of the pod.
func shell(who *syscall.SysProcAttr, script string) error {
	cmd := exec.Command("/bin/sh", "-euc", script)
	cmd.SysProcAttr, cmd.Dir = who, "/"
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", script, err, out.Bytes())
	}
	return nil
}

// showToPod mounts a pod directory at target as in a launcher.
func showToPod(dir poddir.Dir, target string) error {
	return errors.Join(
		bind(dir.Path, target, unix.MS_RDONLY),
		bind(dir.Heartbeat, filepath.Join(target, "pod/heartbeat"), 0),
		bind(dir.Stop, filepath.Join(target, "pod/stop"), 0),
	)
}

func bind(source, target string, access uintptr) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", target, err)
	}
	const flags = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	return unix.Mount("", target, "", flags|access, "")
}

// podNode is a node's tmpfs with one pod.
type podNode struct {
	root    string
	dirs    *poddir.Dirs
	dir     poddir.Dir // on the node
	mounted string     // by the pod
}

// onPodNode calls test in a mount namespace with a new tmpfs.
func onPodNode(t *testing.T, test func(podNode)) {
	t.Helper()
	base := t.TempDir()
	if err := os.Chmod(filepath.Dir(base), 0o755); err != nil { // for the pod's user
		t.Fatal(err)
	}
	n := podNode{root: filepath.Join(base, "node"), mounted: filepath.Join(base, "pod")}
	mkdir(t, n.root)
	mkdir(t, n.mounted)
	inMountNamespace(t, func() {
		if err := n.setUp(); err != nil {
			t.Error(err)
			return
		}
		defer n.dirs.Close()
		test(n)
	})
}

func (n *podNode) setUp() error {
	err := unix.Mount("mooring", n.root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		"mode=0755,size=1m,nr_inodes=64")
	if err != nil {
		return err
	}
	if n.dirs, err = poddir.Open(n.root); err != nil {
		return err
	}
	if n.dir, err = n.dirs.Create("uid"); err != nil {
		return err
	}
	return showToPod(n.dir, n.mounted)
}

func TestPodCanTouch(t *testing.T) {
	onPodNode(t, func(n podNode) {
		for name, who := range podCredentials {
			for seen, file := range map[string]string{"heartbeat": n.dir.Heartbeat,
				"stop": n.dir.Stop} {
				if err := os.Chtimes(file, time.Unix(0, 0), time.Unix(0, 0)); err != nil {
					t.Error(err)
				}
				if err := shell(who, "touch "+n.mounted+"/pod/"+seen); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if info, err := os.Lstat(file); err != nil || info.ModTime().Unix() == 0 {
					t.Errorf("%s touched %s, and its time has not changed: %v", name, seen, err)
				}
			}
		}
	})
}

func TestPodCannotCreateFiles(t *testing.T) {
	onPodNode(t, func(n podNode) {
		for name, who := range podCredentials {
			for _, script := range []string{
				"touch pod/x", "touch x", "mkdir pod/x", "ln -s / pod/x", "mkfifo pod/x",
				"ln pod/stop pod/x",
				"mv pod/stop pod/x", "rm -f pod/stop", "rmdir pod", "chmod 777 pod", "touch pod",
				"cp /etc/passwd pod/x",
				"touch hook", "rm -f hook", "mv hook pod/x", "cp /etc/passwd hook",
			} {
				if err := shell(who, "cd "+n.mounted+" && "+script); err == nil {
					t.Errorf("%s may %s", name, script)
				}
			}
		}
		for dir, want := range map[string]string{n.dir.Path: "hook pod",
			filepath.Dir(n.dir.Stop): "heartbeat stop"} {
			if got := list(dir); got != want {
				t.Errorf("%q in %s, want %q", got, dir, want)
			}
		}
	})
}

func list(dir string) string {
	entries, err := os.ReadDir(dir)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	if err != nil {
		all = append(all, err.Error())
	}
	return strings.Join(all, " ")
}

// No pod can use up the shared tmpfs.
func TestPodCannotExhaustTheNode(t *testing.T) {
	onPodNode(t, func(n podNode) {
		before := statfs(t, n.root)
		for _, file := range []string{"pod/heartbeat", "pod/stop"} {
			abuse(t, filepath.Join(n.mounted, file))
		}
		after := statfs(t, n.root)
		if before.Bfree != after.Bfree || before.Ffree != after.Ffree {
			t.Errorf("the pod used %d blocks and %d inodes, want none", before.Bfree-after.Bfree,
				before.Ffree-after.Ffree)
		}
	})
}

// abuse tries everything that would use space of a regular file.
func abuse(t *testing.T, path string) {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Error(err)
		return
	}
	defer unix.Close(fd)
	for err = nil; err == nil; {
		_, err = unix.Write(fd, make([]byte, 4096))
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Errorf("writing ends with %v, want a full pipe", err)
	}
	for what, err := range map[string]error{
		"ftruncate": unix.Ftruncate(fd, 1<<20),
		"fallocate": unix.Fallocate(fd, 0, 0, 1<<20),
		"setxattr":  unix.Fsetxattr(fd, "user.x", make([]byte, 1024), 0),
	} {
		if err == nil {
			t.Errorf("%s of %s succeeds", what, path)
		}
	}
}

// Existing files can be touched on a full tmpfs.
func TestFullTmpfs(t *testing.T) {
	onPodNode(t, func(n podNode) {
		if err := fill(filepath.Join(n.root, "big")); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("filling the tmpfs ends with %v", err)
		}
		other, err := n.dirs.Create("other")
		if err != nil {
			t.Errorf("another pod's directory without free space: %v", err)
			return
		}
		for err = nil; err == nil; { // uses up the inodes
			_, err = os.MkdirTemp(n.root, "x")
		}
		for _, path := range []string{other.Heartbeat, n.dir.Stop} {
			if err := shell(podCredentials["root"], "touch "+path); err != nil {
				t.Error(err)
			}
		}
		if _, err := n.dirs.Create("third"); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("without free inodes Create = %v", err)
		}
		if _, err := os.Lstat(n.dirs.Dir("uid").Heartbeat); errors.Is(err, fs.ErrNotExist) {
			t.Error("a failing Create removed the directory of another pod")
		}
	})
}

func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 1<<16))
	}
	return err
}

func statfs(t *testing.T, path string) unix.Statfs_t {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		t.Error(err)
	}
	return st
}
