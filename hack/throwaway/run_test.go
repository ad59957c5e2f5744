package throwaway_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mooring-vm/mooring/hack/throwaway"
)

// The command has a child that ignores the signal. The test sends SIGINT to the whole group, as
// Ctrl-C does, and SIGTERM to the run alone. The tests in cmd/node cover the command itself without
// a node.
func TestInterruptedRunEndsAllProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: boots a node")
	}
	bin := filepath.Join(t.TempDir(), "node")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/node")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for signal, group := range map[syscall.Signal]int{syscall.SIGINT: -1, syscall.SIGTERM: 1} {
		t.Run(signal.String(), func(t *testing.T) { interruptRun(t, bin, signal, group) })
	}
}

func interruptRun(t *testing.T, bin string, signal syscall.Signal, group int) {
	t.Helper()
	run := exec.CommandContext(t.Context(), bin, "run", "--", "bash", "-c",
		`(trap "" INT; exec sleep 613) & echo "$! $`+throwaway.EnvNode+`"; wait; sleep 613`)
	run.Stderr = os.Stderr
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the node did not start: %v", err)
	}
	pid, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
	grandchild, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatalf("unexpected line from the command: %q", line)
	}
	if err := syscall.Kill(group*run.Process.Pid, signal); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := run.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 128+int(signal) {
		t.Errorf("got %v, want exit code %d", err, 128+int(signal))
	}
	if alive(grandchild) {
		t.Error("the command's child is still running")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the node's directory still exists: %v", err)
	}
}
