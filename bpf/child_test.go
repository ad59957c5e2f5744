package bpf

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// child is a process of a test, which exchanges lines with it.
type child struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

// shell runs a sh script. With a cgroup, the shell is born in it (CLONE_INTO_CGROUP).
func shell(t testing.TB, in *cgroup, script string, args ...string) *child {
	t.Helper()
	return start(t, in, exec.Command("/bin/sh", append([]string{"-c", script, "sh"}, args...)...))
}

func start(t testing.TB, in *cgroup, cmd *exec.Cmd) *child {
	t.Helper()
	c := &child{t: t, cmd: cmd}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	if in != nil {
		dir, err := os.Open(in.path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = dir.Close() }()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	var err error
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.stdout = bufio.NewReader(stdout)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// writeLine writes a line to the process.
func (c *child) writeLine(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.stdin, line); err != nil {
		c.t.Fatal(err)
	}
}

// readLine reads a line of the process.
func (c *child) readLine() string {
	c.t.Helper()
	line, err := c.stdout.ReadString('\n')
	if err != nil {
		c.t.Fatalf("reading output of %v: %v", c.cmd.Args, err)
	}
	return strings.TrimSpace(line)
}

// readNumber reads a line with a number, mostly a process number.
func (c *child) readNumber() int {
	c.t.Helper()
	n, err := strconv.Atoi(c.readLine())
	if err != nil || n <= 0 {
		c.t.Fatalf("%v says %d (%v), want a number above 0", c.cmd.Args, n, err)
	}
	return n
}

// wait waits for the end of the process.
func (c *child) wait() syscall.WaitStatus {
	_ = c.cmd.Wait()
	status, _ := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status
}

// kill kills the process and its descendants, if the test has not.
func (c *child) kill() {
	_ = unix.Kill(-c.pid(), unix.SIGKILL)
	if c.cmd.ProcessState == nil {
		c.wait()
	}
}

// emulator returns a program that has an emulator's name and sleeps.
func emulator(t testing.TB) string {
	t.Helper()
	return program(t, emulatorName)
}

// program returns sleep under another name.
func program(t testing.TB, name string) string {
	t.Helper()
	return programOf(t, "sleep", name)
}

// programOf returns a program under another name.
func programOf(t testing.TB, program, name string) string {
	t.Helper()
	original, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// move moves a process or thread into a cgroup, like a container runtime.
func move(t testing.TB, to cgroup, file string, id int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(to.path, file), []byte(strconv.Itoa(id)), 0); err != nil {
		t.Fatal(err)
	}
}

func atoi(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
