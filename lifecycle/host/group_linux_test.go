package host_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// The number of a reaped process stays in use while its process group has members. An example is an
// ended launcher with a running VM process.
func TestReapedLeaderOfAProcessGroup(t *testing.T) {
	kernel, err := host.NewLinuxKernel("/proc", cgroup2(t))
	if err != nil {
		t.Fatal(err)
	}
	p := newProcesses(t, kernel)
	cmd := exec.Command("sh", "-c", "cat <&3 >/dev/null & echo started; exec cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stays, release, err := pipe(t)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	cmd.ExtraFiles = stays
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil ||
		!strings.Contains(line, "started") {
		t.Fatalf("%q, %v", line, err)
	}
	leader, err := p.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(input.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(-leader.PID, 0); err != nil {
		t.Fatalf("the group has no members, so the test proves nothing: %v", err)
	}
	if _, err := p.OpenHandle(leader, func() {}); !errors.Is(err, host.ErrGone) {
		t.Errorf("OpenHandle: %v, want ErrGone", err)
	}
	if _, err := p.Identify(leader.PID); !errors.Is(err, host.ErrGone) {
		t.Errorf("Identify: %v, want ErrGone", err)
	}
}

// pipe holds a child that reads from it until released.
func pipe(t *testing.T) (read []*os.File, release func(), err error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return []*os.File{r}, func() {
		_ = r.Close()
		_ = w.Close()
	}, nil
}
