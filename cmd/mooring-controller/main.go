// Command mooring-controller raises the ResourceQuotas of namespaces for the live
// migrations of the VMs in them. It runs once in a cluster, or twice for the second to
// take over.
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
