package bpf

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRights opens a tracker with CAP_BPF and CAP_PERFMON alone.
func TestRights(t *testing.T) {
	open(t, Options{}) // skips on a kernel without support
	for _, role := range []string{"rights", "rights raw"} {
		t.Run(role, func(t *testing.T) {
			cmd := roleCommand(role)
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Credential:  &syscall.Credential{Uid: 65534, Gid: 65534},
				AmbientCaps: []uintptr{unix.CAP_BPF, unix.CAP_PERFMON},
			}
			if output, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}

func TestNoRights(t *testing.T) {
	open(t, Options{})
	cmd := roleCommand("rights")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential:  &syscall.Credential{Uid: 65534, Gid: 65534},
		AmbientCaps: []uintptr{unix.CAP_PERFMON},
	}
	if output, err := cmd.CombinedOutput(); err == nil ||
		!strings.Contains(string(output), "CAP_BPF and CAP_PERFMON are required") {
		t.Errorf("%v\n%s\nwant the capabilities named", err, output)
	}
}

// rightsRole tracks another process from exec to exit.
func rightsRole(raw bool) error {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		return err
	}
	if sleep, err = filepath.EvalSymlinks(sleep); err != nil {
		return err
	}
	tracker, err := Open(Options{Emulators: []string{filepath.Base(sleep)}, raw: raw})
	if err != nil {
		return err
	}
	cmd := exec.Command(sleep, "600")
	if err := cmd.Start(); err != nil {
		return err
	}
	return errors.Join(follow(tracker, cmd), tracker.Close())
}

// follow waits for a program's Exec event, ends it, and waits for its Exit event.
func follow(tracker *Tracker, cmd *exec.Cmd) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	found := errors.New("the process is not in the snapshot")
	err := tracker.Events(ctx, func(e Event) {
		switch {
		case e.PID != cmd.Process.Pid:
		case e.Kind == Exec:
			all, err := tracker.Snapshot()
			for _, p := range all {
				if p.Process == e.Process {
					found = err
				}
			}
			_ = cmd.Process.Kill()
		case e.Kind == Exit:
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		found = errors.Join(found, err)
	}
	return errors.Join(found, reap(cmd))
}

func reap(cmd *exec.Cmd) error {
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		return fmt.Errorf("waiting for %v: %w", cmd.Args, err)
	}
	return nil
}
