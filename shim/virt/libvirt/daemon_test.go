//go:build cgo && libvirt_dlopen

package libvirt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const qemuConfig = `user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
stdio_handler = "file"
namespaces = []
`

// daemon is a libvirtd of the test's own.
type daemon struct {
	dir, uri string
	cgroup   string
	turnOn   io.Writer // starts libvirtd with each line
	init     int       // the namespace's first process
}

// cpu are the cgroup controllers that libvirt limits bandwidth with.
var cpu = []string{`"cpu"`, `"cpuacct"`}

// startDaemon runs libvirtd until the test ends, with whatever it has started. It skips
// the test where that cannot be.
func startDaemon(t *testing.T, controllers ...string) *daemon {
	t.Helper()
	need(t, missingPrograms("libvirtd", "qemu-system-x86_64")...)
	dir, err := os.MkdirTemp("", "virt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &daemon{dir: dir, cgroup: filepath.Base(dir), uri: "qemu+unix:///system?socket=" + filepath.Join(dir, "run", "libvirt-sock")}
	d.configure(t, controllers)
	d.enter(t)
	d.start(t)
	return d
}

func missingPrograms(names ...string) []string {
	var missing []string
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name)
		}
	}
	if os.Geteuid() != 0 {
		missing = append(missing, "root, for namespaces")
	}
	return missing
}

// need skips a test for what is missing, except where CI says that all is there.
func need(t *testing.T, missing ...string) {
	t.Helper()
	switch {
	case len(missing) == 0:
	case os.Getenv("MOORING_CI_REQUIRE") != "":
		t.Fatalf("missing: %s", strings.Join(missing, ", "))
	default:
		t.Skipf("missing: %s", strings.Join(missing, ", "))
	}
}

func (d *daemon) configure(t *testing.T, controllers []string) {
	t.Helper()
	etc := filepath.Join(d.dir, "etc")
	if err := os.Mkdir(etc, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"qemu.conf":     qemuConfig + "cgroup_controllers = [" + strings.Join(controllers, ", ") + "]\n",
		"libvirtd.conf": "auth_unix_rw = \"none\"\nlog_outputs = \"3:stderr\"\n",
	} {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// enter starts the namespaces, in which no libvirtd runs yet.
func (d *daemon) enter(t *testing.T) {
	t.Helper()
	var log bytes.Buffer
	script, err := filepath.Abs("testdata/libvirtd")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(script, d.dir, d.cgroup)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	cmd.Stdout, cmd.Stderr = &log, &log
	if d.turnOn, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.init = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // until all of the namespace has ended
		for _, hierarchy := range []string{"", "cpu", "cpuacct"} {
			removeCgroup(t, filepath.Join("/sys/fs/cgroup", hierarchy, d.cgroup))
		}
		if t.Failed() {
			t.Logf("libvirtd: %s", log.String())
		}
	})
}

func removeCgroup(t *testing.T, path string) {
	t.Helper()
	var folders []string
	err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	for _, folder := range slices.Backward(folders) {
		err = errors.Join(err, unix.Rmdir(folder))
	}
	if err != nil {
		t.Errorf("remove cgroup %s: %v", path, err)
	}
}

// start starts libvirtd and does not wait for it.
func (d *daemon) start(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(d.turnOn, "\n"); err != nil {
		t.Fatal(err)
	}
}

// signal sends a signal to libvirtd alone.
func (d *daemon) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", d.init))
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range strings.Fields(string(children)) {
		pid, _ := strconv.Atoi(child)
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if strings.TrimSpace(string(name)) == "libvirtd" {
			if err := unix.Kill(pid, signal); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("libvirtd does not run")
}
