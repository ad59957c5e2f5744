package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/hack/throwaway"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

// errNodeGone means that the node ended before the command beside it.
var errNodeGone = errors.New("the node is gone, so the command was ended")

// runningNode is what beside needs to know of a *throwaway.Node.
type runningNode interface {
	Dir() string
	QEMU() int
	Exited() <-chan struct{}
	Done() <-chan struct{}
	KeepArtefacts(ctx context.Context, name string) (string, error)
}

// patience is how long a command has to answer a signal.
const patience = 10 * time.Second

// beside runs a command of this machine until it ends, the node does, or a
// signal comes. Nothing that it started is left.
func beside(ctx context.Context, n runningNode, patience time.Duration, args []string) error {
	// what the command leaves behind becomes our child, so that family finds it
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming the reaper of what the command starts: %w", err)
	}
	cmd := exec.Command(args[0], args[1:]...) // it is ended below, and with all that it started
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), throwaway.EnvNode+"="+n.Dir())
	shared := ownsTerminal()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !shared}
	exited, err := child.Start(cmd, syscall.SIGTERM)
	if err != nil {
		return fmt.Errorf("starting the command: %w", err)
	}
	c := companion{exited: exited, spare: n.QEMU(), shared: shared, patience: patience}
	err = c.watch(ctx, n)
	if err != nil && !errors.Is(err, interrupted{syscall.SIGINT}) {
		keepLogs(ctx, n)
	}
	return err
}

// besideAndStop is beside, and then the end of the node.
func besideAndStop(ctx context.Context, n *throwaway.Node, args []string) error {
	err := beside(ctx, n, patience, args)
	if died := n.Stop(); died != nil {
		fmt.Fprintln(os.Stderr, "hack/node:", died)
		return cmp.Or(err, errNodeGone)
	}
	return err
}

func keepLogs(ctx context.Context, n runningNode) {
	dir, err := n.KeepArtefacts(context.WithoutCancel(ctx), "run")
	if err != nil {
		fmt.Fprintln(os.Stderr, "hack/node:", err)
	}
	if dir != "" {
		fmt.Fprintln(os.Stderr, "hack/node: the node's console, journal and containerd log are in", dir)
	}
}

// ownsTerminal reports whether Ctrl-C reaches this process group, and so the
// command where it stays in it.
func ownsTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}

// companion is the running command.
type companion struct {
	exited <-chan error
	spare  int // QEMU, which is our child too
	// shared is for a command that gets the terminal's signals itself.
	shared   bool
	patience time.Duration
}

func (c companion) watch(ctx context.Context, n runningNode) error {
	select {
	case err := <-c.exited:
		c.end()
		return failed(err)
	case <-n.Exited():
		c.end()
		return errNodeGone
	case <-n.Done():
		c.end()
		return errNodeGone
	case <-ctx.Done():
		var by interrupted
		errors.As(context.Cause(ctx), &by)
		c.interrupt(by.signal)
		return context.Cause(ctx)
	}
}

// failedError is the end of the command beside the node, as opposed to that of
// one which a node is made with.
type failedError struct{ *exec.ExitError }

func failed(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return failedError{exit}
	}
	return err
}

// code is 128 and the signal's number for a command that one ended.
func (f failedError) code() int {
	if status, ok := f.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return interrupted{status.Signal()}.code()
	}
	return f.ExitCode()
}

// interrupt passes on a signal, unless it came from the terminal, which sends it
// to the command as well.
func (c companion) interrupt(signal syscall.Signal) {
	if signal == syscall.SIGINT {
		if !c.shared {
			family(c.spare).signal(signal)
		}
		if c.gone() {
			return
		}
	}
	c.end()
}

// killAttempts bounds the wait for a process that even SIGKILL does not end.
const killAttempts = 3

// end ends whatever is left, by SIGTERM and at last by SIGKILL.
func (c companion) end() {
	family(c.spare).signal(syscall.SIGTERM)
	for range killAttempts {
		if c.gone() {
			return
		}
		family(c.spare).signal(syscall.SIGKILL)
	}
}

// gone waits for the end of the command and of all that it started.
func (c companion) gone() bool {
	late := time.After(c.patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for len(family(c.spare)) > 0 {
		select {
		case <-late:
			return false
		case <-tick.C:
		}
	}
	return true
}
