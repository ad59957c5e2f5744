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

// errNodeGone reports that the node ended before the command.
var errNodeGone = errors.New("the node ended, so hack/node ended the command")

// runningNode is the part of *throwaway.Node in use here.
type runningNode interface {
	Dir() string
	QEMU() int
	Exited() <-chan struct{}
	Done() <-chan struct{}
	KeepArtefacts(ctx context.Context, name string) (string, error)
}

// endGrace is a command's time to end after a signal.
const endGrace = 10 * time.Second

// runBeside runs a command of this machine beside a node. When the command or the node ends, or a
// signal arrives, it ends every process started by the command, and returns.
func runBeside(ctx context.Context, n runningNode, grace time.Duration, args []string) error {
	// Orphans of the command become children of this process. descendants finds them there.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming the reaper of the command's children: %w", err)
	}
	cmd := exec.Command(args[0], args[1:]...) // hostCommand.endAll ends it
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), throwaway.EnvNode+"="+n.Dir())
	foreground := ownsTerminal()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !foreground}
	exited, err := child.Start(cmd, syscall.SIGTERM)
	if err != nil {
		return fmt.Errorf("starting the command: %w", err)
	}
	c := hostCommand{
		exited: exited, qemu: n.QEMU(), getsTerminalSignals: foreground, endGrace: grace,
	}
	err = c.watch(ctx, n)
	if err != nil && !errors.Is(err, interrupted{syscall.SIGINT}) {
		keepLogs(ctx, n)
	}
	return err
}

// runBesideAndStop runs a command beside a node and then ends the node.
func runBesideAndStop(ctx context.Context, n *throwaway.Node, args []string) error {
	err := runBeside(ctx, n, endGrace, args)
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
		fmt.Fprintln(os.Stderr,
			"hack/node: the node's console, journal and containerd log are in", dir)
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

// hostCommand is a running command of this machine.
type hostCommand struct {
	exited <-chan error
	qemu   int // QEMU is a child of this process, too
	// getsTerminalSignals is set if the terminal sends signals to the command itself.
	getsTerminalSignals bool
	endGrace            time.Duration
}

func (c hostCommand) watch(ctx context.Context, n runningNode) error {
	select {
	case err := <-c.exited:
		c.endAll()
		return wrapExit(err)
	case <-n.Exited():
		c.endAll()
		return errNodeGone
	case <-n.Done():
		c.endAll()
		return errNodeGone
	case <-ctx.Done():
		var by interrupted
		errors.As(context.Cause(ctx), &by)
		c.interrupt(by.signal)
		return context.Cause(ctx)
	}
}

// failedError is a failed exit of the command beside the node. Tools for the node's build fail with
// other errors.
type failedError struct{ *exec.ExitError }

func wrapExit(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return failedError{exit}
	}
	return err
}

// code returns the exit code of the command, or 128 plus the number of its fatal signal.
func (f failedError) code() int {
	if status, ok := f.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return interrupted{status.Signal()}.code()
	}
	return f.ExitCode()
}

// interrupt forwards a signal, unless the terminal has sent it to the command as well. After SIGINT
// the command may end by itself. Then interrupt ends all remaining processes.
func (c hostCommand) interrupt(signal syscall.Signal) {
	if signal == syscall.SIGINT {
		if !c.getsTerminalSignals {
			descendants(c.qemu).signal(signal)
		}
		if c.awaitEnd() {
			return
		}
	}
	c.endAll()
}

// killAttempts bounds the wait for a process after SIGKILL.
const killAttempts = 3

// endAll sends SIGTERM and then SIGKILL to the remaining processes.
func (c hostCommand) endAll() {
	descendants(c.qemu).signal(syscall.SIGTERM)
	for range killAttempts {
		if c.awaitEnd() {
			return
		}
		descendants(c.qemu).signal(syscall.SIGKILL)
	}
}

// awaitEnd waits until the command and its descendants have ended. It returns false after endGrace.
func (c hostCommand) awaitEnd() bool {
	late := time.After(c.endGrace)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for len(descendants(c.qemu)) > 0 {
		select {
		case <-late:
			return false
		case <-tick.C:
		}
	}
	return true
}
