package bpf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// cgroupKey is the environment variable with the cgroup for a nested tracker.
const cgroupKey = "MOORING_BPF_TEST_CGROUP"

// TestNestedNamespaces runs two trackers of one cgroup on one kernel, the second in its own pid
// namespace like an agent in a kind node. Each uses the numbers of its own namespace, and the inner
// one tracks only processes of its namespace.
func TestNestedNamespaces(t *testing.T) {
	eachVariant(t, func(t *testing.T, o Options) {
		group := newCgroup(t)
		outer := open(t, o)
		register(t, outer, group)
		r := record(t, outer)
		cmd := roleCommand("nested", cgroupKey+"="+group.path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
		inner := start(t, nil, cmd)
		ours := shell(t, &group, "read line")
		vm := start(t, nil, exec.Command(emulator(t), "600"))
		inner.readNumber() // the tracker is open
		again := shell(t, &group, "exit 0")
		again.wait()
		inner.writeLine("go on")
		pid := inner.readNumber()
		theirs := r.waitFor(func(e Event) bool {
			return e.Kind == Exec && !slices.Contains([]int{ours.pid(), again.pid(), vm.pid()},
				e.PID)
		}, "the inner process")
		if theirs.PID == pid || theirs.Group != group.id || theirs.Parent != inner.pid() {
			t.Errorf("%+v, want another number than %d, and parent %d", theirs, pid, inner.pid())
		}
		inner.writeLine("end")
		if status := inner.wait(); status.ExitStatus() != 0 {
			t.Errorf("the inner tracker ends with %d", status.ExitStatus())
		}
		r.wait(Exit, theirs.PID)
		vm.kill()
		wantTracked(t, outer, group, ours.pid())
	})
}

// nestedRole opens a tracker in its own pid namespace.
func nestedRole() error {
	path := os.Getenv(cgroupKey)
	id, err := CgroupID(path)
	if err != nil {
		return err
	}
	tracker, err := Open(Options{Emulators: []string{emulatorName}})
	if err != nil {
		return err
	}
	if err := tracker.Register(id); err != nil {
		return err
	}
	fmt.Println(os.Getpid())
	awaitLine()
	return errors.Join(nestedChild(tracker, path), tracker.Close())
}

// nestedChild starts a process in the cgroup and expects it alone in the snapshot.
func nestedChild(tracker *Tracker, cgroup string) error {
	dir, err := os.Open(cgroup)
	if err != nil {
		return err
	}
	cmd := exec.Command("/bin/sh", "-c", "read line")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	all, err := tracker.Snapshot()
	if err != nil || len(all) != 1 || all[0].PID != cmd.Process.Pid ||
		all[0].Parent != os.Getpid() {
		return fmt.Errorf("snapshot: %+v, %w, want process %d alone", all, err, cmd.Process.Pid)
	}
	fmt.Println(cmd.Process.Pid)
	awaitLine()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	var strangers error
	if err := stdin.Close(); err != nil {
		return err
	}
	err = tracker.Events(ctx, func(e Event) {
		if e.PID != cmd.Process.Pid {
			strangers = fmt.Errorf("%+v is from another namespace", e)
		}
		if e.Kind == Exit {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		return err
	}
	return strangers
}
