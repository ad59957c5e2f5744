// Command bench measures the cost of Mooring against an empty NRI plugin and a node without
// Mooring. It writes the figures as JSON. `make bench` runs it, and `make generate` renders the
// published figures, benchmarks.json, to pages in docs/reference.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	setUpNRI()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "bench",
		Short:         "Measure the cost of Mooring",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(machineCommand(), nodeCommand(), quotaCommand(), resizeCommand(),
		ownResizeCommand(), startGateCommand(), renderCommand(), pluginCommand(), agentCommand(), launchersCommand(),
		describeCommand(), forkerCommand(), vmCommand())
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

func logf(format string, args ...any) { fmt.Fprintf(os.Stderr, "--> "+format+"\n", args...) }
