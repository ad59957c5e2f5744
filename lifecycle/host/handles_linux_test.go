package host_test

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
)

func TestLinuxProcesses(t *testing.T) {
	mount := cgroup2(t)
	lifecycletest.TestProcesses(t, func(t *testing.T) (lifecycletest.Machine,
		supervisor.Processes) {
		kernel, err := host.NewLinuxKernel("/proc", mount)
		if err != nil {
			t.Fatal(err)
		}
		return &linuxMachine{mount: mount, kernel: kernel, children: map[int]*exec.Cmd{}},
			newProcesses(t, kernel)
	})
}

func newProcesses(t *testing.T, kernel *host.LinuxKernel) *host.LinuxProcesses {
	t.Helper()
	p, err := host.NewLinuxProcesses(kernel)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestZombieHasEnded(t *testing.T) {
	kernel, err := host.NewLinuxKernel("/proc", cgroup2(t))
	if err != nil {
		t.Fatal(err)
	}
	p := newProcesses(t, kernel)
	cmd := exec.Command("cat")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the error is its SIGKILL
	process, err := p.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	h, err := p.OpenHandle(process, func() { close(ended) })
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT,
		nil); err != nil {
		t.Errorf("the process is no zombie, so the test proves nothing: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}
