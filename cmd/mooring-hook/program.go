package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/mooring-vm/mooring/internal/buildinfo"
	"github.com/mooring-vm/mooring/shim/prestop"
	"github.com/mooring-vm/mooring/shim/vmwait"
)

// The exit codes, see docs/reference/mooring-hook.md.
const (
	exitDone        = 0 // the VM is gone, or the heartbeat ended with SIGTERM
	exitFailed      = 1
	exitUsage       = 2
	exitTimeout     = 3 // no confirmation in time
	exitNoDirectory = 4 // the container has no pod directory
	exitNoVM        = 5 // the VM did not start in time
	exitVMEnded     = 6 // the VM has not ended by its guest
)

const help = `Connects a VM launcher pod with the node's Mooring agent.

Usage:
  mooring-hook prestop [flags] [-- COMMAND ARG...]   request the stop of the VM, wait until it is gone
  mooring-hook heartbeat [flags]                     send heartbeats until SIGTERM
  mooring-hook run [flags]                           wait while the node-level VM runs
  mooring-hook install FILE                          copy this program to FILE
  mooring-hook gate DOMAIN OPERATION SUB EXTRA       answer libvirt as its hook
  mooring-hook version                               show the version

Each has --help. Exit codes: 0 done, 1 failed, 2 usage, 3 no confirmation in time,
4 this container has no pod directory, 5 no VM in time, 6 the VM ended other than by its guest.
`

// program is the command line with its outputs.
type program struct {
	out, errOut io.Writer
	build       buildinfo.Info
}

// errUsage means wrong usage. The message has been printed.
var errUsage = errors.New("usage")

// run runs a command and returns the exit code.
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
	case errors.Is(err, prestop.ErrNoDirectory): // heartbeat returns the same error
		return exitNoDirectory
	case errors.Is(err, vmwait.ErrNotFound):
		return exitNoVM
	}
	if _, ok := errors.AsType[*vmwait.EndedError](err); ok {
		return exitVMEnded
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
	case "run":
		return p.runVM(ctx, args)
	case "install":
		return p.install(args)
	case "gate":
		return p.gate(args)
	case "version", "--version":
		_, err := fmt.Fprintln(p.out, "mooring-hook", p.build)
		return err
	case "help", "--help", "-help", "-h":
		_, err := fmt.Fprint(p.out, help)
		return err
	default:
		return p.misused("unknown command %q", command)
	}
}

// flags returns the flags of a command. Requested help goes to standard output.
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

// parse returns errUsage for invalid arguments.
func (p program) parse(f *flag.FlagSet, args []string) error {
	printHelp := f.Usage
	f.Usage = func() {}
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		printHelp()
		return err
	case err != nil:
		return p.misused("%s", err)
	}
	return nil
}

func (p program) misused(format string, args ...any) error {
	fmt.Fprintf(p.errOut, "mooring-hook: %s; see mooring-hook --help\n",
		fmt.Sprintf(format, args...))
	return errUsage
}
