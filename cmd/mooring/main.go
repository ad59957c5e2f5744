// Command mooring shows requested and actual settings of VM launchers, changes VM sizes and
// leases, and examines nodes and quotas. Installed as kubectl-mooring it is also `kubectl
// mooring`.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mooring-vm/mooring/cli"
	"github.com/mooring-vm/mooring/internal/buildinfo"
)

// version is set by release builds.
var version string

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	program := cli.Program{
		Name:   os.Args[0],
		Build:  buildinfo.Read(version),
		Out:    os.Stdout,
		ErrOut: os.Stderr,
		Now:    time.Now,
	}
	return program.Run(ctx, os.Args[1:])
}
