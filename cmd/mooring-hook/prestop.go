package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/mooring-vm/mooring/shim/prestop"
)

const prestopHelp = `Asks the node's agent to stop the VM of this pod, and waits until the agent has
confirmed that it is gone. Meant for lifecycle.preStop.exec.command. It waits while
the agent is away, too. The request stays when waiting ends early.

  mooring-hook prestop [flags] [-- COMMAND ARG...]

COMMAND is run first, for instance to have the guest shut down. Whether it succeeds
or not, the request is made then.
`

// commandTimeout is short beside usual grace periods: most of them is for the VM.
const commandTimeout = 10 * time.Second

func (p program) prestop(ctx context.Context, args []string) error {
	f := p.flags(prestopHelp)
	file := f.String("file", prestop.DefaultFile, "the `file` to touch")
	timeout := f.Duration("timeout", 0, "how long to wait for the answer, such as 90s; 0: for as long as this process may live")
	patience := f.Duration("command-timeout", commandTimeout, "how long COMMAND may take before it is killed")
	if err := p.parse(f, args); err != nil {
		return err
	}
	switch {
	case *timeout < 0:
		return p.misused("--timeout %s: want no negative duration", *timeout)
	case *patience <= 0:
		return p.misused("--command-timeout %s: want more than zero", *patience)
	case f.NArg() > 0 && !afterDashes(args, f.NArg()):
		return p.misused("%q: put -- before COMMAND", f.Arg(0))
	}
	if f.NArg() > 0 {
		p.runFirst(ctx, *patience, f.Args())
	}
	return prestop.Run(ctx, prestop.Options{File: *file, Timeout: *timeout})
}

// afterDashes reports whether the last n arguments come after "--".
func afterDashes(args []string, n int) bool { return len(args) > n && args[len(args)-n-1] == "--" }

// runFirst runs a command, whose failure changes nothing: the agent stops the VM all
// the same.
func (p program) runFirst(ctx context.Context, patience time.Duration, argv []string) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("it took longer than --command-timeout"))
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, p.out, p.errOut // no /dev/null is needed
	cmd.WaitDelay = time.Second                                   // for what the command has left behind
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(p.errOut, "mooring-hook: %s: %v; going on\n", argv[0], errors.Join(err, context.Cause(ctx)))
	}
}
