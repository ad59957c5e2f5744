//go:build cgo && libvirt_dlopen

package libvirttest

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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

const libvirtdConfig = `auth_unix_rw = "none"
log_outputs = "3:stderr"
`

//go:embed libvirtd
var script []byte

// Daemon is a libvirtd that belongs to one test.
type Daemon struct {
	Dir string // folder that libvirtd sees under the same path
	URI string

	cgroup    string
	startPipe io.Writer // each line starts libvirtd
	initPID   int       // the first process of the PID namespace
}

// Start runs libvirtd until the test ends, and then ends its domains too. It skips the test on a
// machine without the programs. With limitCPU domains get the CPU controllers if the machine has
// them.
func Start(t testing.TB, limitCPU bool) *Daemon {
	t.Helper()
	Require(t, missingPrograms("libvirtd", "qemu-system-x86_64")...)
	dir, err := os.MkdirTemp("", "virt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &Daemon{
		Dir:    dir,
		cgroup: filepath.Base(dir),
		URI:    "qemu+unix:///system?socket=" + filepath.Join(dir, "run", "libvirt-sock"),
	}
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
	host := uuid.NewString() // migration needs two different hosts
	for name, text := range map[string]string{
		"etc/qemu.conf": qemuConfig + migrationPorts() +
			"cgroup_controllers = [" + controllers + "]\n",
		"etc/libvirtd.conf": libvirtdConfig + fmt.Sprintf("host_uuid = %q\n", host),
		"start":             string(script),
	} {
		if err := os.WriteFile(filepath.Join(d.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// migrationPorts returns settings for a range of 16 ports. Two libvirtd with the same range, for
// example of two test packages, can choose the same port at the same time. The ranges lie below the
// ports that the kernel gives to clients.
func migrationPorts() string {
	first := 16384 + 16*rand.IntN(1000)
	return fmt.Sprintf("migration_port_min = %d\nmigration_port_max = %d\n", first, first+15)
}

// startNamespace starts the PID and mount namespaces, without libvirtd.
func (d *Daemon) startNamespace(t testing.TB) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.CommandContext(
		context.WithoutCancel(t.Context()), "sh", filepath.Join(d.Dir, "start"), d.Dir, d.cgroup,
	)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
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
		_ = cmd.Wait() // until all processes of the namespace have ended
		d.removeCgroups(t)
		if t.Failed() {
			t.Logf("libvirtd: %s", log.String())
		}
	})
}

// StartLibvirtd starts libvirtd, which must not be running, and does not wait for it.
func (d *Daemon) StartLibvirtd(t testing.TB) {
	t.Helper()
	if _, err := io.WriteString(d.startPipe, "\n"); err != nil {
		t.Fatal(err)
	}
}

// SignalLibvirtd sends a signal to libvirtd only.
func (d *Daemon) SignalLibvirtd(t testing.TB, signal syscall.Signal) {
	t.Helper()
	d.signal(t, "libvirtd", signal)
}

// SignalQEMU sends a signal to the QEMU of the only domain.
func (d *Daemon) SignalQEMU(t testing.TB, signal syscall.Signal) {
	t.Helper()
	d.signal(t, "qemu-system-x86", signal) // the kernel cuts process names to 15 bytes
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

// WithConnect calls f with a connection of its own, for calls that package virt does not have.
func (d *Daemon) WithConnect(t testing.TB, f func(*libvirt.Connect) error) {
	t.Helper()
	conn := d.connect(t)
	defer conn.Close()
	if err := f(conn); err != nil {
		t.Fatal(err)
	}
}

// connect waits for a libvirtd that starts.
func (d *Daemon) connect(t testing.TB) *libvirt.Connect {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		conn, err := libvirt.NewConnect(d.URI)
		if err == nil {
			return conn
		}
		select {
		case <-deadline:
			t.Fatal(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
