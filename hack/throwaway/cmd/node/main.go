// Command node builds, boots and enters the throw-away node. hack/node runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/hack/throwaway"
	"github.com/mooring-vm/mooring/hack/throwaway/channel"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(exitCode(err))
	}
}

// exitCode is that of the command which ran in the node or beside it. What is
// wrong with the node itself is 125, as with docker run.
func exitCode(err error) int {
	var inNode *channel.ExitError
	var beside *exec.ExitError
	switch {
	case errors.As(err, &inNode):
		return inNode.Code
	case errors.As(err, &beside) && beside.Exited():
		return beside.ExitCode()
	case errors.Is(err, context.Canceled):
		return 130
	}
	fmt.Fprintln(os.Stderr, "hack/node:", err)
	return 125
}

func command() *cobra.Command {
	o := throwaway.Options{Spec: image.SpecFromEnv(), Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	c := &cobra.Command{
		Use:           "node",
		Short:         "The throw-away node: a QEMU guest with containerd, NRI, libvirt and every capability",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	f := c.PersistentFlags()
	f.StringVar(&o.Spec.Suite, "suite", o.Spec.Suite, "Debian release of the node ($MOORING_NODE_SUITE)")
	f.StringVar(&o.Spec.Containerd, "containerd", o.Spec.Containerd, "containerd to build, or \"distribution\" ($MOORING_NODE_CONTAINERD)")
	f.IntVar(&o.VM.CPUs, "cpus", 2, "virtual CPUs")
	f.IntVar(&o.VM.MemoryMiB, "memory", 6144, "memory in MiB; taken as the node touches it")
	c.AddCommand(imageCommand(&o), runCommand(&o), upCommand(&o), superviseCommand(&o), downCommand(),
		execCommand(), shellCommand(&o), pushCommand(), pullCommand(), cleanCommand())
	return c
}
