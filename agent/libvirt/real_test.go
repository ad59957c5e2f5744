package libvirt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// daemonScript starts libvirtd in a mount namespace of its own. There its files are below $1,
// and the users that it needs exist. The daemon dies with its parent.
const daemonScript = `set -e
for d in run lib log cache; do
	case $d in run) at=/run/libvirt ;; *) at=/var/$d/libvirt ;; esac
	mkdir -p "$at" "$1/$d"
	mount --bind "$1/$d" "$at"
done
mkdir -p /etc/libvirt
mount --bind "$1/etc" /etc/libvirt
{ cat /etc/passwd; echo "libvirt-qemu:x:64055:64055::/:/bin/false"; } >"$1/passwd"
{ cat /etc/group; echo "libvirt-qemu:x:64055:"; echo "kvm:x:64056:"; } >"$1/group"
mount --bind "$1/passwd" /etc/passwd
mount --bind "$1/group" /etc/group
exec libvirtd --config /etc/libvirt/libvirtd.conf --pid-file "$1/run/libvirtd.pid"
`

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

// startLibvirt runs a libvirtd until the test ends, and then kills it with its domains. It
// skips the test if a program is missing, unless MOORING_REQUIRE_LIBVIRT is set.
func startLibvirt(t *testing.T) ownLibvirt {
	t.Helper()
	return startLibvirtWith(t, func(string) {})
}

// startLibvirtWith is startLibvirt with files that install writes below the directory.
func startLibvirtWith(t *testing.T, install func(dir string)) ownLibvirt {
	t.Helper()
	var missing []string
	for _, program := range []string{"libvirtd", "virsh", "qemu-system-x86_64"} {
		if _, err := exec.LookPath(program); err != nil {
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
	dir, err := os.MkdirTemp("", "virt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
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
	write(t, etc, "libvirtd.conf", []byte("auth_unix_rw = \"none\"\nlog_outputs = \"3:stderr\"\n"))
	write(t, r.dir, "vm.xml", []byte(realDomain))
}

// start starts the daemon, and waits until its QEMU driver works.
func (r ownLibvirt) start(t *testing.T) *exec.Cmd {
	t.Helper()
	var log bytes.Buffer
	daemon := exec.Command("sh", "-c", daemonScript, "libvirtd", r.dir)
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

func (r ownLibvirt) virsh(t *testing.T, args ...string) error {
	t.Helper()
	uri := "qemu+unix:///system?socket=" + r.Socket
	out, err := exec.CommandContext(t.Context(), "virsh",
		append([]string{"-c", uri}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("virsh %q: %w: %s", args, err, out)
	}
	return nil
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

// TestRealLibvirt checks records and shutdowns with a real libvirt.
func TestRealLibvirt(t *testing.T) {
	r := startLibvirt(t)
	counts := counted(t, r.Dir)
	r.must(t, "create", filepath.Join(r.dir, "vm.xml"))
	await(t, counts, 1)
	all, err := r.List()
	if err != nil || len(all) != 1 {
		t.Fatalf("List = %+v, %v", all, err)
	}
	d := all[0]
	t.Cleanup(func() { _ = unix.Kill(d.PID, unix.SIGKILL) })
	if diff := cmp.Diff(Domain{Name: "vm-1", UUID: vm1.UUID, PID: d.PID}, d); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !d.RunBy(argsOf(d.PID)) {
		t.Errorf("%+v is not run by %q", d, argsOf(d.PID))
	}
	if id, err := r.UUID(t.Context(), d.Name); id != d.UUID || err != nil {
		t.Errorf("UUID of %s = %q, %v, want %s", d.Name, id, err, d.UUID)
	}
	former := Domain{Name: d.Name, UUID: d.UUID, PID: d.PID + 1}
	if err := r.Shutdown(t.Context(), d.UUID, func() error { return r.Runs(former) }); !errors.Is(
		err, ErrOtherProcess) {
		t.Errorf("shutdown of an earlier process: %v", err)
	}
	// The firmware ignores the button: the test only checks the call.
	meant := func() error { return r.Runs(d) }
	if err := r.Shutdown(t.Context(), d.UUID, meant); err != nil {
		t.Error(err)
	}
	r.must(t, "destroy", "vm-1")
	await(t, counts, 0)
	if err := r.Shutdown(t.Context(), d.UUID, meant); !errors.Is(err, ErrNoDomain) {
		t.Errorf("shutdown of an absent domain: %v", err)
	}
	r.must(t, "define", filepath.Join(r.dir, "vm.xml"))
	if err := r.Shutdown(t.Context(), d.UUID, meant); !errors.Is(err, ErrNoDomain) {
		t.Errorf("shutdown of an inactive domain: %v", err)
	}
}

// Records and QEMU outlive a killed daemon.
func TestKilledLibvirt(t *testing.T) {
	r := startLibvirt(t)
	r.must(t, "create", filepath.Join(r.dir, "vm.xml"))
	before, err := r.List()
	if err != nil || len(before) != 1 {
		t.Fatalf("List = %+v, %v", before, err)
	}
	t.Cleanup(func() { _ = unix.Kill(before[0].PID, unix.SIGKILL) })
	pid, err := os.ReadFile(filepath.Join(r.Dir, "driver.pid"))
	if err != nil {
		t.Fatal(err)
	}
	var daemon int
	if _, err := fmt.Sscan(string(pid), &daemon); err != nil {
		t.Fatal(err)
	}
	if args := argsOf(daemon); !IsDaemon(args) {
		t.Errorf("libvirt's daemon has the arguments %q", args)
	}
	if err := unix.Kill(daemon, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of answers",
		func() bool { return r.Shutdown(t.Context(), vm1.UUID, always) != nil })
	after, err := r.List()
	if diff := cmp.Diff(before, after); diff != "" || err != nil {
		t.Errorf("%v (-before +after)\n%s", err, diff)
	}
	if !after[0].RunBy(argsOf(after[0].PID)) {
		t.Errorf("%+v is not run any more", after[0])
	}
	r.start(t)
	if err := r.Shutdown(context.Background(), vm1.UUID, always); err != nil {
		t.Errorf("by the next daemon: %v", err)
	}
}
