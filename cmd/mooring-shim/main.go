// Command mooring-shim runs beside a VM launcher, as a sidecar. It resizes the VM through
// libvirt to the desired size of the pod, and shuts the guest down gracefully.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/internal/buildinfo"
	"github.com/mooring-vm/mooring/shim/command"
)

// version is set by release builds.
var version string

func main() {
	saveMemory()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mooring-shim:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	return command.Command(buildinfo.Read(version), os.Stderr).ExecuteContext(ctx)
}
