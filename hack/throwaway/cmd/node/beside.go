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

// errNodeGone means that the node ended before the command.
var errNodeGone = errors.New("the node is gone, so the command was ended")

// runningNode is the part of *throwaway.Node in use here.
type runningNode interface {
	Dir() string
	QEMU() int
	Exited() <-chan struct{}
	Done() <-chan struct{}
	KeepArtefacts(ctx context.Context, name string) (string, error)
}

// patience is a command's time to end after a signal.
const patience = 10 * time.Second

// beside runs a command of this machine. It returns when the command or the node ends, or a signal
// arrives. Then it ends every process that the command started.
func beside(ctx context.Context, n runningNode, patience time.Duration, args []string) error {
	// Orphans of the command become children of this process, so that family finds them.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming the reaper of the command's children: %w", err)
	}
	cmd := exec.Command(args[0], args[1:]...) // companion.end ends it
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), throwaway.EnvNode+"="+n.Dir())
	shared := ownsTerminal()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !shared}
	exited, err := child.Start(cmd, syscall.SIGTERM)
	if err != nil {
		return fmt.Errorf("starting the command: %w", err)
	}
	c := companion{exited: exited, qemu: n.QEMU(), shared: shared, patience: patience}
	err = c.watch(ctx, n)
	if err != nil && !errors.Is(err, interrupted{syscall.SIGINT}) {
		keepLogs(ctx, n)
	}
	return err
}

// besideAndStop runs a command beside a node and then ends the node.
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

// ownsTerminal reports whether this process group gets the terminal's signals. Then a command in
// the same group gets Ctrl-C, too.
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
	qemu   int // QEMU, which is our child too
	// shared means that the command gets the terminal's signals itself.
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

// failedError is the exit of the command beside the node. Tools that build the node fail with other
// errors.
type failedError struct{ *exec.ExitError }

func failed(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return failedError{exit}
	}
	return err
}

// code is the exit code of the command, or 128 plus the number of the signal that ended it.
func (f failedError) code() int {
	if status, ok := f.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return interrupted{status.Signal()}.code()
	}
	return f.ExitCode()
}

// interrupt passes a signal on, unless the terminal has sent it to the command as well.
func (c companion) interrupt(signal syscall.Signal) {
	if signal == syscall.SIGINT {
		if !c.shared {
			family(c.qemu).signal(signal)
		}
		if c.gone() {
			return
		}
	}
	c.end()
}

// killAttempts bounds the wait for a process that does not end after SIGKILL.
const killAttempts = 3

// end sends SIGTERM and then SIGKILL to the remaining processes.
func (c companion) end() {
	family(c.qemu).signal(syscall.SIGTERM)
	for range killAttempts {
		if c.gone() {
			return
		}
		family(c.qemu).signal(syscall.SIGKILL)
	}
}

// gone waits until the command and its descendants have ended. It returns false after patience.
func (c companion) gone() bool {
	late := time.After(c.patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for len(family(c.qemu)) > 0 {
		select {
		case <-late:
			return false
		case <-tick.C:
		}
	}
	return true
}
