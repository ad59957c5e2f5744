package main

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/api/vmfile"
)

// maxSize bounds the program: the kernel charges its pages to launchers.
const maxSize = 3 << 20

// build builds the program with the flags of make build.
func build(t testing.TB, path string) {
	t.Helper()
	buildFile(t, path, ".")
}

func buildFile(t testing.TB, path, source string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s", "-o", path, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestProgramIsStaticAndSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hook")
	build(t, path)
	if info, err := os.Stat(path); err != nil || info.Size() > maxSize {
		t.Errorf("%d bytes, want at most %d; %v", info.Size(), maxSize, err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program needs a loader (PT_INTERP)")
		}
	}
	if libs, err := f.ImportedLibraries(); err != nil || len(libs) != 0 {
		t.Errorf("the program needs libraries: %v, %v", libs, err)
	}
}

// emptyRoot is an image with Mooring's mounts only: no libc, no /etc, no /proc, no /dev, and no
// writable directory.
func emptyRoot(t *testing.T) (root string, run func(args ...string) (int, string)) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("missing: root, for chroot")
	}
	root = t.TempDir()
	pod := filepath.Join(root, "run/mooring/pod")
	if err := os.MkdirAll(pod, 0o755); err != nil {
		t.Fatal(err)
	}
	build(t, filepath.Join(root, "run/mooring/hook"))
	for _, name := range []string{"stop", "heartbeat"} {
		path := filepath.Join(pod, name)
		if err := os.Rename(podFile(t), path); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o666); err != nil { //nolint:gosec // as the agent does
			t.Fatal(err)
		}
	}
	return root, func(args ...string) (int, string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "/run/mooring/hook", args...)
		cmd.Dir, cmd.Env, cmd.Stdin = "/", []string{}, bytes.NewReader(nil)
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root,
			Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
}

func TestRunsInAnEmptyImage(t *testing.T) {
	root, run := emptyRoot(t)
	stop := filepath.Join(root, "run/mooring/pod/stop")
	if code, out := run("prestop", "--timeout=1ms"); code != exitTimeout || !touched(t, stop) {
		t.Errorf("without an agent: exit code %d, %s", code, out)
	}
	confirm(t, stop) // the request has stayed
	go confirm(t, stop)
	if code, out := run("prestop", "--", "/none"); code != exitDone {
		t.Errorf("exit code %d, %s", code, out)
	}
	if code, out := run("version"); code != exitDone {
		t.Errorf("version: exit code %d, %s", code, out)
	}
	if err := os.Remove(stop); err != nil {
		t.Fatal(err)
	}
	if code, out := run("prestop"); code != exitNoDirectory {
		t.Errorf("without a directory: exit code %d, %s", code, out)
	}
}

func TestHeartbeatEndsWithSIGTERM(t *testing.T) {
	path, file := filepath.Join(t.TempDir(), "hook"), podFile(t)
	build(t, path)
	cmd := exec.CommandContext(t.Context(), path, "heartbeat", "--file", file, "--interval=1h")
	cmd.WaitDelay = time.Minute
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	confirm(t, file) // after a heartbeat, the signal handler is set
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

// As the launcher's main process, run outlives SIGTERM until the agent confirms the stop.
func TestRunOutlivesSIGTERM(t *testing.T) {
	path, stop := filepath.Join(t.TempDir(), "hook"), podFile(t)
	build(t, path)
	state := filepath.Join(t.TempDir(), vmfile.Name)
	write := func(text string) {
		if err := errors.Join(os.WriteFile(state+".new", []byte(text), 0o600),
			os.Rename(state+".new", state)); err != nil {
			t.Error(err)
		}
	}
	const running = `{"state":"running","domain":"vm-3","pid":7}`
	if err := unix.Mkfifo(state, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "run", "--file", state, "--stop-file", stop)
	cmd.WaitDelay = time.Minute
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first, err := os.OpenFile(state, os.O_WRONLY, 0) // after a read, the signal handler is set
	if err != nil {
		t.Fatal(err)
	}
	write(running)
	if _, err := first.WriteString(running); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	write(`{"state":"ended","domain":"vm-3","pid":7,"reason":"shutdown"}`)
	confirm(t, stop)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

func TestInstall(t *testing.T) {
	dir := t.TempDir()
	path, target := filepath.Join(dir, "hook"), filepath.Join(dir, "to", "hook")
	build(t, path)
	if err := os.Mkdir(filepath.Dir(target), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call replaces the file
		if out, err := exec.CommandContext(t.Context(), path, "install",
			target).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if out, err := exec.CommandContext(t.Context(), target, "version").CombinedOutput(); err !=
		nil {
		t.Errorf("the copy: %v: %s", err, out)
	}
	entries, err := os.ReadDir(filepath.Dir(target))
	if err != nil || len(entries) != 1 {
		t.Errorf("files in the directory: %v, %v", entries, err)
	}
	if info, err := os.Stat(target); err != nil || info.Mode() != 0o755 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
