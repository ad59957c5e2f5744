package main

import (
	"context"
	"log/slog"

	"github.com/mooring-vm/mooring/api/vmfile"
	"github.com/mooring-vm/mooring/shim/prestop"
	"github.com/mooring-vm/mooring/shim/vmwait"
)

const runHelp = `Waits while the pod's VM runs in the node's libvirt, and passes on how it ended. Make it
the launcher's main process, after the start of the domain. SIGTERM requests the stop of
the VM, as the preStop hook does. The wait goes on while agent or libvirt is away.

  mooring-hook run [flags]
`

func (p program) runVM(ctx context.Context, args []string) error {
	f := p.flags(runHelp)
	start := f.Duration("start-timeout", vmwait.DefaultStartTimeout,
		"longest wait for the start of the VM")
	timeout := f.Duration("timeout", 0, "longest wait for the end of the VM after SIGTERM, such as "+
		"90s; 0: no limit")
	file := f.String("file", vmfile.Path, "the `file` with the state of the VM")
	stopFile := f.String("stop-file", prestop.DefaultFile, "the `file` to touch after SIGTERM")
	if err := p.parse(f, args); err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return p.misused("run takes no argument, got %q", f.Arg(0))
	case *start <= 0:
		return p.misused("--start-timeout %s: want more than zero", *start)
	case *timeout < 0:
		return p.misused("--timeout %s: want 0 or more", *timeout)
	}
	return vmwait.Run(ctx, vmwait.Options{
		File: *file, StopFile: *stopFile, StartTimeout: *start, StopTimeout: *timeout,
		Log: slog.New(slog.NewTextHandler(p.errOut, nil)),
	})
}
