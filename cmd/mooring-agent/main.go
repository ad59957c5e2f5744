// Command mooring-agent sets memory-lock limits and cgroup settings of VM launchers, within
// the node policy, and ties VM processes to their pods. It runs on every node.
package main

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/agent"
	"github.com/mooring-vm/mooring/internal/buildinfo"
)

// version is set by release builds.
var version string

func main() {
	if err := run(); err != nil {
		agent.PrintError(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	return agent.Command(buildinfo.Read(version), os.Stderr).ExecuteContext(ctx)
}
