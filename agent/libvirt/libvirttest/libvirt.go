// Package libvirttest runs libvirt for tests of the agent. Its domains are in the PID namespace of
// the test: the agent shares one with a node's domains, too.
package libvirttest

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// EnvRoot names the environment variable with a root file system. Its libvirtd and QEMU replace the
// machine's. `go run ./hack/libvirt-root forky` makes one.
const EnvRoot = "MOORING_LIBVIRT_ROOT"

//go:embed libvirtd
var daemonScript []byte

const qemuConfig = `user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
stdio_handler = "file"
namespaces = []
cgroup_controllers = []
`

// Libvirt is the libvirtd of one test.
type Libvirt struct {
	// Home is the directory of its files, under the same path for libvirtd.
	Home string
}

// Start runs a libvirtd until the test ends, after install has written files below its home. It
// skips the test if a program is missing, unless MOORING_REQUIRE_LIBVIRT is set.
func Start(t testing.TB, install func(home string)) *Libvirt {
	t.Helper()
	Require(t)
	home, err := os.MkdirTemp("", "virt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	return StartIn(t, home, install)
}

// Require skips the test without libvirt, QEMU and root, or fails it as Start says.
func Require(t testing.TB) {
	t.Helper()
	root := os.Getenv(EnvRoot)
	var missing []string
	for _, program := range []string{"libvirtd", "virsh", "qemu-system-x86_64"} {
		if root != "" && program != "virsh" {
			found, err := filepath.Glob(filepath.Join(root, "usr", "*bin", program))
			if err != nil || len(found) == 0 {
				missing = append(missing, program+" in "+EnvRoot+"="+root)
			}
		} else if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if os.Geteuid() != 0 {
		missing = append(missing, "root, for a mount namespace")
	}
	switch {
	case len(missing) > 0 && os.Getenv("MOORING_REQUIRE_LIBVIRT") != "":
		t.Fatalf("missing: %s, and MOORING_REQUIRE_LIBVIRT is set", strings.Join(missing, ", "))
	case len(missing) > 0:
		t.Skipf("missing: %s", strings.Join(missing, ", "))
	}
}

// StartIn is Start in an empty directory, without Require.
func StartIn(t testing.TB, home string, install func(home string)) *Libvirt {
	t.Helper()
	l := &Libvirt{Home: home}
	l.configure(t)
	install(home)
	l.StartAgain(t)
	return l
}

// Records is the directory with a file for each running domain.
func (l *Libvirt) Records() string { return filepath.Join(l.Home, "run", "qemu") }

// SocketPath is the socket for clients.
func (l *Libvirt) SocketPath() string { return filepath.Join(l.Home, "run", "libvirt-sock") }

// URI is the address for clients.
func (l *Libvirt) URI() string { return "qemu+unix:///system?socket=" + l.SocketPath() }

func (l *Libvirt) configure(t testing.TB) {
	t.Helper()
	host, err := os.ReadFile("/proc/sys/kernel/random/uuid") // migration needs different hosts
	if err == nil {
		err = os.Mkdir(filepath.Join(l.Home, "etc"), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"etc/qemu.conf": []byte(qemuConfig),
		"etc/libvirtd.conf": fmt.Appendf(nil,
			"auth_unix_rw = \"none\"\nlog_outputs = \"3:stderr\"\nhost_uuid = %q\n",
			strings.TrimSpace(string(host))),
		"start": daemonScript,
	} {
		if err := os.WriteFile(filepath.Join(l.Home, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// StartAgain starts a daemon after Kill, and waits until its QEMU driver works.
func (l *Libvirt) StartAgain(t testing.TB) {
	t.Helper()
	var log bytes.Buffer
	daemon := exec.CommandContext(context.WithoutCancel(t.Context()), "sh",
		filepath.Join(l.Home, "start"), l.Home)
	daemon.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS,
		Pdeathsig: syscall.SIGKILL}
	daemon.Stderr = &log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = daemon.Wait() }()
	t.Cleanup(func() {
		_ = daemon.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("libvirtd: %s", log.String())
		}
	})
	l.await(t, "libvirtd's answer", func() bool { return l.Virsh(t, "list") == nil })
}

// DaemonPID is the process ID of libvirtd.
func (l *Libvirt) DaemonPID(t testing.TB) (pid int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(l.Records(), "driver.pid"))
	if err == nil {
		_, err = fmt.Sscan(string(text), &pid)
	}
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// Kill ends the daemon by SIGKILL. The domains go on.
func (l *Libvirt) Kill(t testing.TB) {
	t.Helper()
	if err := unix.Kill(l.DaemonPID(t), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.await(t, "end of libvirtd", func() bool { return l.Virsh(t, "list") != nil })
}

// Restart kills the daemon and starts another one.
func (l *Libvirt) Restart(t testing.TB) {
	t.Helper()
	l.Kill(t)
	l.StartAgain(t)
}

func (l *Libvirt) await(t testing.TB, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("no %s after a minute", what)
		}
	}
}

// Virsh runs virsh. Its error has the output.
func (l *Libvirt) Virsh(t testing.TB, args ...string) error {
	t.Helper()
	_, err := l.VirshOutput(t, args...)
	return err
}

// VirshOutput runs virsh and returns its output.
func (l *Libvirt) VirshOutput(t testing.TB, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "virsh",
		append([]string{"-c", l.URI()}, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("virsh %q: %w: %s", args, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// Must runs virsh, and fails the test on an error.
func (l *Libvirt) Must(t testing.TB, args ...string) {
	t.Helper()
	if err := l.Virsh(t, args...); err != nil {
		t.Fatal(err)
	}
}

// Destroy ends a domain. libvirt's answer may be that there is none, if it notices the end of the
// process before.
func (l *Libvirt) Destroy(t testing.TB, domain string) {
	t.Helper()
	err := l.Virsh(t, "destroy", domain)
	if err != nil && !strings.Contains(err.Error(), "Domain not found") {
		t.Fatal(err)
	}
}
