package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// leastDeath kills a launcher. A minimal watcher waits for its end and sends SIGTERM to its VM. No
// program outside the kernel can be faster.
func leastDeath(ctx context.Context, program string) (_ death, err error) {
	in, err := newCgroup("least")
	if err != nil {
		return death{}, err
	}
	defer func() { err = errors.Join(err, in.remove(context.WithoutCancel(ctx))) }()
	owner := exec.Command("sleep", "1000000")
	if err := in.start(owner); err != nil {
		return death{}, err
	}
	v, err := startVM(in, standInVM(ctx, program, 0))
	if err != nil {
		return death{}, err
	}
	defer v.reap()
	sent, err := terminateAfter(owner.Process.Pid, v.cmd.Process.Pid)
	if err != nil {
		return death{}, err
	}
	if err := pause(ctx, calm); err != nil {
		return death{}, err
	}
	killed := host.LinuxClock{}.Now()
	if err := owner.Process.Kill(); err != nil {
		return death{}, err
	}
	at, err := waitFor(ctx, sent)
	_ = owner.Wait() // it was killed
	if err != nil {
		return death{}, err
	}
	asked, err := v.asked()
	return death{sent: at.Sub(killed), asked: asked.Sub(killed)}, err
}

// terminateAfter sends SIGTERM to vm when owner has ended, and sends the time to the channel.
func terminateAfter(owner, vm int) (sent <-chan host.Boottime, err error) {
	of, err := unix.PidfdOpen(owner, 0)
	if err != nil {
		return nil, fmt.Errorf("waiting for the end of process %d: %w", owner, err)
	}
	to, err := unix.PidfdOpen(vm, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("asking process %d to end: %w", vm, err), unix.Close(of))
	}
	told := make(chan host.Boottime, 1)
	go func() {
		defer unix.Close(of)
		defer unix.Close(to)
		awaitGone(of)
		now := host.LinuxClock{}.Now()
		_ = unix.PidfdSendSignal(to, unix.SIGTERM, nil, 0) // the waiting caller notices an error
		told <- now
	}()
	return told, nil
}

// awaitGone returns when the kernel reports the process's end.
func awaitGone(pidfd int) {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// goneAt returns a channel that receives the time of a process's end.
func goneAt(pid int) (<-chan host.Boottime, error) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("waiting for the end of process %d: %w", pid, err)
	}
	told := make(chan host.Boottime, 1)
	go func() {
		defer unix.Close(pidfd)
		awaitGone(pidfd)
		told <- host.LinuxClock{}.Now()
	}()
	return told, nil
}

// waitFor receives a time, bounded by the context.
func waitFor(ctx context.Context, told <-chan host.Boottime) (host.Boottime, error) {
	select {
	case at := <-told:
		return at, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(patience):
		return 0, errors.New("a process does not end")
	}
}
