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

// cgroupKey names, in the environment, the cgroup that a nested tracker registers.
const cgroupKey = "MOORING_BPF_TEST_CGROUP"

// TestNestedNamespaces runs two trackers of the same cgroup on one kernel, the
// second in a pid namespace of its own, as an agent in a kind node does. Each knows
// processes by the numbers that it sees, and the inner one none but its own.
func TestNestedNamespaces(t *testing.T) {
	eachVariant(t, func(t *testing.T, o Options) {
		group := newCgroup(t)
		outer := open(t, o)
		register(t, outer, group)
		r := record(t, outer)
		cmd := playing("nested", cgroupKey+"="+group.path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
		inner := start(t, nil, cmd)
		ours := shell(t, &group, "read line")
		vm := start(t, nil, exec.Command(emulator(t), "600"))
		inner.number() // the tracker is open
		again := shell(t, &group, "exit 0")
		again.wait()
		inner.say("go on")
		pid := inner.number()
		theirs := r.waitFor(func(e Event) bool {
			return e.Kind == Exec && !slices.Contains([]int{ours.pid(), again.pid(), vm.pid()}, e.PID)
		}, "the inner process")
		if theirs.PID == pid || theirs.Group != group.id || theirs.Parent != inner.pid() {
			t.Errorf("%+v, want another number than %d, and parent %d", theirs, pid, inner.pid())
		}
		inner.say("end")
		if status := inner.wait(); status.ExitStatus() != 0 {
			t.Errorf("the inner tracker ends with %d", status.ExitStatus())
		}
		r.wait(Exit, theirs.PID)
		vm.kill()
		wantTracked(t, outer, group, ours.pid())
	})
}

// nestedRole opens a tracker in a pid namespace of its own.
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
	told()
	return errors.Join(nestedChild(tracker, path), tracker.Close())
}

// nestedChild wants to know one process, in which it starts, and no other.
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
	if err != nil || len(all) != 1 || all[0].PID != cmd.Process.Pid || all[0].Parent != os.Getpid() {
		return fmt.Errorf("snapshot: %+v, %w, want process %d alone", all, err, cmd.Process.Pid)
	}
	fmt.Println(cmd.Process.Pid)
	told()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	var strangers error
	if err := stdin.Close(); err != nil {
		return err
	}
	err = tracker.Events(ctx, func(e Event) {
		if e.PID != cmd.Process.Pid {
			strangers = fmt.Errorf("%+v is not of this namespace", e)
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
