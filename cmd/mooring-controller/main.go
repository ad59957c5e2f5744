// Command mooring-controller raises the ResourceQuotas of namespaces for live migrations of
// VMs. It runs once in a cluster, or twice: then the second instance takes over from the first.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/internal/buildinfo"
	"github.com/mooring-vm/mooring/quota/command"
)

// version is set by release builds.
var version string

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	return command.Command(buildinfo.Read(version), os.Stderr).ExecuteContext(ctx)
}
