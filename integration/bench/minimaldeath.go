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

// minimalDeath kills a launcher. A minimal watcher waits for its end and sends SIGTERM to its VM.
// No program outside the kernel can be faster.
func minimalDeath(ctx context.Context, program string) (_ death, err error) {
	in, err := newCgroup("least")
	if err != nil {
		return death{}, err
	}
	defer func() { err = errors.Join(err, in.remove(context.WithoutCancel(ctx))) }()
	launcher := exec.Command("sleep", "1000000")
	if err := in.start(launcher); err != nil {
		return death{}, err
	}
	v, err := startVM(in, standInVM(ctx, program, 0))
	if err != nil {
		return death{}, err
	}
	defer v.reap()
	sent, err := terminateAfter(launcher.Process.Pid, v.cmd.Process.Pid)
	if err != nil {
		return death{}, err
	}
	if err := pause(ctx, idlePause); err != nil {
		return death{}, err
	}
	killed := host.LinuxClock{}.Now()
	if err := launcher.Process.Kill(); err != nil {
		return death{}, err
	}
	at, err := waitFor(ctx, sent)
	_ = launcher.Wait() // it was killed
	if err != nil {
		return death{}, err
	}
	received, err := v.signalTime()
	return death{sent: at.Sub(killed), received: received.Sub(killed)}, err
}

// terminateAfter sends SIGTERM to vm when launcher has ended, and sends the time to the channel.
func terminateAfter(launcher, vm int) (sent <-chan host.Boottime, err error) {
	of, err := unix.PidfdOpen(launcher, 0)
	if err != nil {
		return nil, fmt.Errorf("waiting for the end of process %d: %w", launcher, err)
	}
	to, err := unix.PidfdOpen(vm, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening VM process %d: %w", vm, err), unix.Close(of))
	}
	times := make(chan host.Boottime, 1)
	go func() {
		defer unix.Close(of)
		defer unix.Close(to)
		awaitGone(of)
		now := host.LinuxClock{}.Now()
		_ = unix.PidfdSendSignal(to, unix.SIGTERM, nil, 0) // the waiting caller notices an error
		times <- now
	}()
	return times, nil
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
	times := make(chan host.Boottime, 1)
	go func() {
		defer unix.Close(pidfd)
		awaitGone(pidfd)
		times <- host.LinuxClock{}.Now()
	}()
	return times, nil
}

// waitFor receives a time, bounded by the context.
func waitFor(ctx context.Context, times <-chan host.Boottime) (host.Boottime, error) {
	select {
	case at := <-times:
		return at, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(waitTimeout):
		return 0, errors.New("timeout: a process has not ended")
	}
}
