// Command node builds, boots and enters the throw-away node. hack/node runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/hack/plainlog"
	"github.com/mooring-vm/mooring/hack/throwaway"
	"github.com/mooring-vm/mooring/hack/throwaway/channel"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

func main() {
	ctx := untilSignal()
	if err := command().ExecuteContext(ctx); err != nil {
		os.Exit(exitCode(errors.Join(err, context.Cause(ctx))))
	}
}

// interrupted is the cause of a context after a signal.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return i.signal.String() }

// code is a shell's exit code for this signal.
func (i interrupted) code() int { return 128 + int(i.signal) }

// untilSignal returns a context. The first signal ends it. Later signals have no effect, because
// the clean-up takes bounded time.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		s, _ := (<-signals).(syscall.Signal)
		cancel(interrupted{s})
	}()
	return ctx
}

// exitCode is the exit code of the command in the node or beside it. It is 125 for an error of the
// node itself, as in docker run.
func exitCode(err error) int {
	var inNode *channel.ExitError
	var beside failedError
	var stopped interrupted
	switch {
	case errors.As(err, &inNode):
		return inNode.Code
	case errors.As(err, &beside):
		return beside.code()
	case errors.As(err, &stopped):
		return stopped.code()
	}
	fmt.Fprintln(os.Stderr, "hack/node:", err)
	return 125
}

func command() *cobra.Command {
	o := throwaway.Options{Spec: image.SpecFromEnv(), Log: plainlog.New(os.Stderr, "hack/node")}
	c := &cobra.Command{
		Use: "node",
		Short: "The throw-away node: a QEMU guest with containerd, NRI, libvirt and " +
			"every capability",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	f := c.PersistentFlags()
	f.StringVar(&o.Spec.Suite, "suite", o.Spec.Suite, "Debian release of the node "+
		"($MOORING_NODE_SUITE)")
	f.StringVar(&o.Spec.Containerd, "containerd", o.Spec.Containerd,
		"containerd to build, or \"distribution\" ($MOORING_NODE_CONTAINERD)")
	f.IntVar(&o.VM.CPUs, "cpus", 2, "virtual CPUs")
	f.IntVar(&o.VM.MemoryMiB, "memory", 6144, "memory in MiB; QEMU allocates it when the node "+
		"uses it")
	f.StringVar(&o.Source, "source", "", "checkout of Mooring with the node's sources")
	_ = f.MarkHidden("source") // hack/node sets it
	c.AddCommand(imageCommand(&o), runCommand(&o), upCommand(&o), superviseCommand(&o),
		downCommand(),
		execCommand(), shellCommand(&o), pushCommand(), pullCommand(), cleanCommand())
	return c
}
