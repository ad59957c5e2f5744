package libvirt

import (
	"bytes"
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

// envRoot names the environment variable with a root file system whose libvirtd and QEMU replace
// those of the machine. `go run ./hack/libvirt-root forky` makes one.
const envRoot = "MOORING_LIBVIRT_ROOT"

//go:embed testdata/libvirtd
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

// realDomain has no disk: it runs the firmware only.
const realDomain = `<domain type='qemu'>
  <name>vm-1</name>
  <uuid>5530f9f3-5627-4dec-933e-74ce04c51e18</uuid>
  <memory unit='MiB'>16</memory>
  <os><type arch='x86_64' machine='pc'>hvm</type></os>
  <features><acpi/></features>
  <devices><controller type='usb' model='none'/><memballoon model='none'/></devices>
</domain>
`

// ownLibvirt is a libvirt that belongs to the test.
type ownLibvirt struct {
	Records
	Daemon
	dir string
}

// startLibvirt runs a libvirtd until the test ends. It skips the test if a program is missing,
// unless MOORING_REQUIRE_LIBVIRT is set.
func startLibvirt(t *testing.T) ownLibvirt {
	t.Helper()
	return startLibvirtWith(t, func(string) {})
}

// startLibvirtWith is startLibvirt with files that install writes below the directory.
func startLibvirtWith(t *testing.T, install func(dir string)) ownLibvirt {
	t.Helper()
	requireLibvirt(t)
	dir, err := os.MkdirTemp("", "virt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return startLibvirtIn(t, dir, install)
}

func requireLibvirt(t *testing.T) {
	t.Helper()
	root := os.Getenv(envRoot)
	var missing []string
	for _, program := range []string{"libvirtd", "virsh", "qemu-system-x86_64"} {
		if root != "" && program != "virsh" {
			found, err := filepath.Glob(filepath.Join(root, "usr", "*bin", program))
			if err != nil || len(found) == 0 {
				missing = append(missing, program+" in "+envRoot+"="+root)
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

// startLibvirtIn is startLibvirtWith in an empty directory. libvirtd sees the files of the directory.
func startLibvirtIn(t *testing.T, dir string, install func(dir string)) ownLibvirt {
	t.Helper()
	r := ownLibvirt{Records{Dir: filepath.Join(dir, "run", "qemu")},
		Daemon{filepath.Join(dir, "run", "libvirt-sock")}, dir}
	r.configure(t)
	install(dir)
	r.start(t)
	return r
}

func (r ownLibvirt) configure(t *testing.T) {
	t.Helper()
	etc := filepath.Join(r.dir, "etc")
	if err := os.Mkdir(etc, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, etc, "qemu.conf", []byte(qemuConfig))
	host, err := os.ReadFile("/proc/sys/kernel/random/uuid") // migration needs different hosts
	if err != nil {
		t.Fatal(err)
	}
	write(t, etc, "libvirtd.conf", fmt.Appendf(nil,
		"auth_unix_rw = \"none\"\nlog_outputs = \"3:stderr\"\nhost_uuid = %q\n",
		strings.TrimSpace(string(host))))
	write(t, r.dir, "start", daemonScript)
	write(t, r.dir, "vm.xml", []byte(realDomain))
}

// start starts the daemon, and waits until its QEMU driver works.
func (r ownLibvirt) start(t *testing.T) *exec.Cmd {
	t.Helper()
	var log bytes.Buffer
	daemon := exec.Command("sh", filepath.Join(r.dir, "start"), r.dir)
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
	eventually(t, "libvirtd answers", func() bool { return r.virsh(t, "list") == nil })
	return daemon
}

func (r ownLibvirt) uri() string { return "qemu+unix:///system?socket=" + r.Socket }

func (r ownLibvirt) virsh(t *testing.T, args ...string) error {
	t.Helper()
	_, err := r.virshOutput(t, args...)
	return err
}

func (r ownLibvirt) virshOutput(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "virsh",
		append([]string{"-c", r.uri()}, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("virsh %q: %w: %s", args, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

func (r ownLibvirt) must(t *testing.T, args ...string) {
	t.Helper()
	if err := r.virsh(t, args...); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// argsOf returns the arguments of a process, or nil after its end.
func argsOf(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(data) == 0 {
		return nil
	}
	return strings.Split(string(data), "\x00")
}

// restart ends the daemon by SIGKILL and starts another one. QEMU keeps running.
func (r ownLibvirt) restart(t *testing.T) {
	t.Helper()
	pid, err := os.ReadFile(filepath.Join(r.Dir, "driver.pid"))
	if err != nil {
		t.Fatal(err)
	}
	var daemon int
	if _, err := fmt.Sscan(string(pid), &daemon); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(daemon, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of answers", func() bool { return r.virsh(t, "list") != nil })
	r.start(t)
}
