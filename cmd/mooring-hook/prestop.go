package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/mooring-vm/mooring/shim/prestop"
)

const prestopHelp = `Requests the stop of this pod's VM from the node's agent, and waits until the agent
confirms that the VM is gone. Use it in lifecycle.preStop.exec.command. It also waits
while the agent is away. If the wait ends early, the request stays.

  mooring-hook prestop [flags] [-- COMMAND ARG...]

COMMAND runs first, for instance to shut the guest down. The request follows, even if
COMMAND fails. COMMAND runs again and again during the wait, because a booting or busy
guest may lose it. Only its first run reports problems.
`

// commandTimeout leaves most of a usual grace period to the VM.
const commandTimeout = 10 * time.Second

// commandPeriod is the pause between two runs of COMMAND: the agent's period for a VM of the node's
// libvirt.
const commandPeriod = 10 * time.Second

func (p program) prestop(ctx context.Context, args []string) error {
	f := p.flags(prestopHelp)
	file := f.String("file", prestop.DefaultFile, "the `file` to touch")
	timeout := f.Duration("timeout", 0, "longest wait for the confirmation, such as 90s; 0: "+
		"no limit")
	limit := f.Duration("command-timeout", commandTimeout,
		"longest time of COMMAND before it is killed")
	repeat := f.Duration("repeat", commandPeriod,
		"pause before the next run of COMMAND; 0: run it once")
	if err := p.parse(f, args); err != nil {
		return err
	}
	switch {
	case *timeout < 0:
		return p.misused("--timeout %s: want 0 or more", *timeout)
	case *limit <= 0:
		return p.misused("--command-timeout %s: want more than zero", *limit)
	case *repeat < 0:
		return p.misused("--repeat %s: want 0 or more", *repeat)
	case f.NArg() > 0 && !afterDashes(args, f.NArg()):
		return p.misused("%q: put -- before COMMAND", f.Arg(0))
	}
	if f.NArg() > 0 {
		p.runFirst(ctx, *limit, f.Args())
		defer runAgain(ctx, *repeat, *limit, f.Args())()
	}
	return prestop.Run(ctx, prestop.Options{File: *file, Timeout: *timeout})
}

// afterDashes reports whether the last n arguments come after "--".
func afterDashes(args []string, n int) bool { return len(args) > n && args[len(args)-n-1] == "--" }

// runFirst runs a command and reports its failure. The agent stops the VM in any case.
func (p program) runFirst(ctx context.Context, timeout time.Duration, argv []string) {
	if err := runCommand(ctx, timeout, argv, p.out, p.errOut); err != nil {
		fmt.Fprintf(p.errOut, "mooring-hook: %s: %v; continuing\n", argv[0], err)
	}
}

// runAgain runs a command after each pause, until stop is called. A pause of 0 never ends.
func runAgain(
	ctx context.Context, pause, timeout time.Duration, argv []string,
) (stop func()) {
	if pause == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
				// an error is usual: the guest may have ended
				_ = runCommand(ctx, timeout, argv, io.Discard, io.Discard)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// runCommand runs a command and kills it after the timeout.
func runCommand(
	ctx context.Context, timeout time.Duration, argv []string, out, errOut io.Writer,
) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		errors.New("it took longer than --command-timeout"))
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, errOut // without /dev/null
	// for children that hold its output open
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return nil
}
