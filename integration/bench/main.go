// Command bench measures what Mooring costs, beside what costs nothing: an empty
// NRI plugin, and a node without one. It writes the figures as JSON and renders
// docs/reference/benchmarks.md from them. `make bench` runs it.
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
		Short:         "Measure what Mooring costs",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(machineCommand(), nodeCommand(), quotaCommand(), resizeCommand(), renderCommand(), pluginCommand(), agentCommand(), launchersCommand(), describeCommand(),
		forkerCommand(), vmCommand())
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "--> "+format+"\n", args...) }
