package vm

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

func startSleep(t *testing.T) (*exec.Cmd, Process) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := NewProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, p
}

// The process does not answer SIGTERM.
func TestEndOfAWedgedProcess(t *testing.T) {
	cmd, p := startSleep(t)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := p.End(t.Context(), 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it ended by itself")
	}
}

func TestEndKeepsAnotherProcessWithThePid(t *testing.T) {
	cmd, p := startSleep(t)
	p.Started = "1"
	if err := p.End(t.Context(), time.Minute); err != nil {
		t.Errorf("a process that is gone: got %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Errorf("the other process was ended: %v", err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() !=
		syscall.SIGKILL {
		t.Errorf("got %v, want killed by us", err)
	}
}
