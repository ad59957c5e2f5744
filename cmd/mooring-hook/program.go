package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/mooring-vm/mooring/internal/buildinfo"
	"github.com/mooring-vm/mooring/shim/prestop"
)

// The exit codes, as docs/how-to/prestop.md tells them.
const (
	exitDone        = 0 // the VM is gone, or the heartbeat ended with SIGTERM
	exitFailed      = 1
	exitUsage       = 2
	exitTimeout     = 3 // nobody confirmed
	exitNoDirectory = 4 // the container has no pod directory
)

const help = `What a VM launcher pod does with the node's Mooring agent.

Usage:
  mooring-hook prestop [flags] [-- COMMAND ARG...]   ask for the VM to be stopped, wait until it is gone
  mooring-hook heartbeat [flags]                     give heartbeats until SIGTERM
  mooring-hook install FILE                          copy this program to FILE
  mooring-hook version                               show the version

Each has --help. Exit codes: 0 done, 1 failed, 2 usage, 3 nobody confirmed in time,
4 this container has no pod directory.
`

// program is the command line with what it writes to.
type program struct {
	out, errOut io.Writer
	build       buildinfo.Info
}

// errUsage says that the flag package has told what is wrong.
var errUsage = errors.New("usage")

// run returns the exit code.
func (p program) run(ctx context.Context, args []string) int {
	err := p.dispatch(ctx, args)
	if err != nil && !errors.Is(err, errUsage) && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(p.errOut, "mooring-hook:", err)
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitDone
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, prestop.ErrTimeout):
		return exitTimeout
	case errors.Is(err, prestop.ErrNoDirectory): // heartbeat's is the same
		return exitNoDirectory
	}
	return exitFailed
}

func (p program) dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(p.errOut, help)
		return errUsage
	}
	switch command, args := args[0], args[1:]; command {
	case "prestop":
		return p.prestop(ctx, args)
	case "heartbeat":
		return p.heartbeat(ctx, args)
	case "install":
		return p.install(args)
	case "version", "--version":
		_, err := fmt.Fprintln(p.out, "mooring-hook", p.build)
		return err
	case "help", "--help", "-help", "-h":
		_, err := fmt.Fprint(p.out, help)
		return err
	default:
		return p.misused("there is no command %q", command)
	}
}

// flags returns the flags of a command. Help that was asked for is no error.
func (p program) flags(usage string) *flag.FlagSet {
	f := flag.NewFlagSet("", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {
		f.SetOutput(p.out)
		fmt.Fprint(p.out, usage, "\nFlags:\n")
		f.PrintDefaults()
	}
	return f
}

// parse returns errUsage where flags does not understand args.
func (p program) parse(f *flag.FlagSet, args []string) error {
	asked := f.Usage
	f.Usage = func() {}
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		asked()
		return err
	case err != nil:
		return p.misused("%s", err)
	}
	return nil
}

func (p program) misused(format string, args ...any) error {
	fmt.Fprintf(p.errOut, "mooring-hook: %s; see mooring-hook --help\n", fmt.Sprintf(format, args...))
	return errUsage
}
