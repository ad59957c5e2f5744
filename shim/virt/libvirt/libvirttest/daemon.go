//go:build cgo && libvirt_dlopen

package libvirttest

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
	"libvirt.org/go/libvirt"
)

const qemuConfig = `user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
stdio_handler = "file"
namespaces = []
`

//go:embed libvirtd
var script []byte

// Daemon is a libvirtd of the test's own.
type Daemon struct {
	Dir string // where it finds files of the test
	URI string

	cgroup    string
	startPipe io.Writer // starts libvirtd with each line
	initPID   int       // the namespace's first process
}

// Start runs libvirtd until the test ends, with whatever it has started. It skips the
// test where that cannot be. Bandwidth is a matter of the CPU controllers, which are
// used where limitCPU is set and the machine has them.
func Start(t testing.TB, limitCPU bool) *Daemon {
	t.Helper()
	Require(t, missingPrograms("libvirtd", "qemu-system-x86_64")...)
	dir, err := os.MkdirTemp("", "virt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &Daemon{Dir: dir, cgroup: filepath.Base(dir), URI: "qemu+unix:///system?socket=" + filepath.Join(dir, "run", "libvirt-sock")}
	d.configure(t, limitCPU)
	d.startNamespace(t)
	d.StartLibvirtd(t)
	return d
}

func (d *Daemon) configure(t testing.TB, limitCPU bool) {
	t.Helper()
	etc := filepath.Join(d.Dir, "etc")
	if err := os.Mkdir(etc, 0o700); err != nil {
		t.Fatal(err)
	}
	controllers := ""
	if limitCPU {
		controllers = `"cpu", "cpuacct"`
	}
	for name, text := range map[string]string{
		"etc/qemu.conf":     qemuConfig + "cgroup_controllers = [" + controllers + "]\n",
		"etc/libvirtd.conf": fmt.Sprintf("auth_unix_rw = \"none\"\nlog_outputs = \"3:stderr\"\nhost_uuid = %q\n", uuid.NewString()), // or none could migrate to another
		"start":             string(script),
	} {
		if err := os.WriteFile(filepath.Join(d.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// enter starts the namespaces, in which no libvirtd runs yet.
func (d *Daemon) startNamespace(t testing.TB) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", filepath.Join(d.Dir, "start"), d.Dir, d.cgroup)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	cmd.Stdout, cmd.Stderr = &log, &log
	var err error
	if d.startPipe, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.initPID = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // until all of the namespace has ended
		d.removeCgroups(t)
		if t.Failed() {
			t.Logf("libvirtd: %s", log.String())
		}
	})
}

// Return starts libvirtd, which does not run, and does not wait for it.
func (d *Daemon) StartLibvirtd(t testing.TB) {
	t.Helper()
	if _, err := io.WriteString(d.startPipe, "\n"); err != nil {
		t.Fatal(err)
	}
}

// Signal sends a signal to libvirtd alone.
func (d *Daemon) SignalLibvirtd(t testing.TB, signal syscall.Signal) {
	t.Helper()
	d.signal(t, "libvirtd", signal)
}

// SignalQEMU sends a signal to the QEMU of the one domain.
func (d *Daemon) SignalQEMU(t testing.TB, signal syscall.Signal) {
	t.Helper()
	d.signal(t, "qemu-system-x86", signal) // as long as names of processes are
}

func (d *Daemon) signal(t testing.TB, program string, signal syscall.Signal) {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", d.initPID))
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range strings.Fields(string(children)) {
		pid, _ := strconv.Atoi(child)
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if strings.TrimSpace(string(name)) == program {
			if err := unix.Kill(pid, signal); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("%s does not run", program)
}

// Raw does what the shim never does, with a connection of its own.
func (d *Daemon) WithConnect(t testing.TB, f func(*libvirt.Connect) error) {
	t.Helper()
	conn, err := libvirt.NewConnect(d.URI)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := f(conn); err != nil {
		t.Fatal(err)
	}
}
