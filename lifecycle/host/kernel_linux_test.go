package host_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
)

// linuxMachine starts children of the test process in cgroups below its own.
type linuxMachine struct {
	mount    string
	kernel   *host.LinuxKernel
	children map[int]*exec.Cmd
}

func TestLinuxKernel(t *testing.T) {
	mount := cgroup2(t)
	lifecycletest.TestKernel(t, func(t *testing.T) lifecycletest.Machine {
		kernel, err := host.NewLinuxKernel("/proc", mount)
		if err != nil {
			t.Fatal(err)
		}
		return &linuxMachine{mount: mount, kernel: kernel, children: map[int]*exec.Cmd{}}
	})
}

// cgroup2 returns a writable cgroup v2 mount. MOORING_REQUIRE_CGROUP2 makes a missing one a
// failure, so that no machine skips this test unnoticed.
func cgroup2(t *testing.T) string {
	t.Helper()
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var st unix.Statfs_t
		if unix.Statfs(mount, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC &&
			unix.Access(mount, unix.W_OK) == nil {
			return mount
		}
	}
	if os.Getenv("MOORING_REQUIRE_CGROUP2") != "" {
		t.Fatal("no writable cgroup v2 hierarchy, and MOORING_REQUIRE_CGROUP2 is set")
	}
	t.Skip("no writable cgroup v2 hierarchy")
	return ""
}

func (m *linuxMachine) Kernel() host.Kernel { return m.kernel }

func (m *linuxMachine) NewCgroup(t *testing.T, parent string) string {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Join(m.mount, parent), "mooring-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return strings.TrimPrefix(dir, m.mount)
}

func (m *linuxMachine) Start(t *testing.T, cgroup string) int {
	t.Helper()
	dir, err := os.Open(filepath.Join(m.mount, cgroup))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	cmd := exec.Command("cat") // waits for the end of its input, at the end of this process
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.children[cmd.Process.Pid] = cmd
	t.Cleanup(func() { m.Kill(t, cmd.Process.Pid) })
	awaitArguments(t, cmd.Process.Pid, "cat\x00")
	return cmd.Process.Pid
}

// awaitArguments waits for the new arguments after exec. Until then procfs has the arguments of
// its parent.
func awaitArguments(t *testing.T, pid int, want string) {
	t.Helper()
	over := time.After(time.Minute)
	for {
		got, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && string(got) == want {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-over:
			t.Fatalf("process %d has the arguments %q, %v, want %q", pid, got, err, want)
		}
	}
}

func (m *linuxMachine) Kill(t *testing.T, pid int) {
	cmd, ok := m.children[pid]
	if !ok {
		return
	}
	delete(m.children, pid)
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // the error is its SIGKILL
}

func (m *linuxMachine) EndUnreaped(t *testing.T, pid int) {
	t.Helper()
	err := m.children[pid].Process.Kill()
	if err == nil {
		err = unix.Waitid(unix.P_PID, pid, &unix.Siginfo{}, unix.WEXITED|unix.WNOWAIT, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The test process finds its own cgroup.
func TestLinuxKernelOwnCgroup(t *testing.T) {
	kernel, err := host.NewLinuxKernel("/proc", cgroup2(t))
	if err != nil {
		t.Fatal(err)
	}
	cgroup, err := kernel.Cgroup(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	procs, err := kernel.Processes(cgroup)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		if p.PID == os.Getpid() {
			return
		}
	}
	t.Errorf("Processes(%s) does not list the test process itself: %v", cgroup, procs)
}

func TestLinuxKernelNeedsCgroup2(t *testing.T) {
	if _, err := host.NewLinuxKernel("/proc", t.TempDir()); err == nil ||
		!strings.Contains(err.Error(), "cgroup v2") {
		t.Errorf("error = %v, want one that asks for cgroup v2", err)
	}
}

func TestLinuxKernelRefusesHidepid(t *testing.T) {
	proc := t.TempDir()
	if err := os.Symlink("/proc/self", filepath.Join(proc, "self")); err != nil {
		t.Fatal(err)
	}
	if _, err := host.NewLinuxKernel(proc, cgroup2(t)); err == nil ||
		!strings.Contains(err.Error(), "hides process 1: mount it without hidepid") {
		t.Errorf("error = %v, want one that names hidepid", err)
	}
}

func TestLinuxKernelControllers(t *testing.T) {
	mount := cgroup2(t)
	kernel, err := host.NewLinuxKernel("/proc", mount)
	if err != nil {
		t.Fatal(err)
	}
	got, err := kernel.Controllers()
	if err != nil {
		t.Fatal(err)
	}
	for _, controller := range got { // none if cgroup v1 has all controllers
		if strings.ContainsAny(controller, " \n/") {
			t.Errorf("invalid controller name %q", controller)
		}
	}
}
