// Command kind runs a kind cluster on a machine with docker, or else in a throw-away node. hack/kind
// runs it.
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

	"github.com/mooring-vm/mooring/hack/kindcluster/guest"
	"github.com/mooring-vm/mooring/hack/plainlog"
)

func main() { os.Exit(run()) }

// run returns the exit code: that of the command beside a cluster, or 1.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM,
		syscall.SIGHUP)
	defer stop()
	err := command().ExecuteContext(ctx)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	case err != nil:
		fmt.Fprintln(os.Stderr, "hack/kind:", err)
		return 1
	}
	return 0
}

// options are the flags of all commands.
type options struct {
	source  string
	image   string
	workers int
	inNode  bool
	log     *slog.Logger
}

func (o options) guest() guest.Options {
	return guest.Options{Source: o.source, Workers: max(o.workers, 0), Log: o.log}
}

func command() *cobra.Command {
	o := &options{log: plainlog.New(os.Stderr, "hack/kind")}
	c := &cobra.Command{
		Use: "kind",
		Short: "A kind cluster with NRI, on this machine's docker or else in a throw-away " +
			"node",
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if o.image != "" && o.inNode {
				return fmt.Errorf("--image %s: want docker on this machine; a throw-away node "+
					"has the image that hack/kind builds", o.image)
			}
			return nil
		},
	}
	f := c.PersistentFlags()
	f.StringVar(&o.image, "image", "", "node image in a registry, such as "+
		"kindest/node:v1.35.0, on this machine's docker (default: built from modules and "+
		"Debian packages)")
	f.IntVar(&o.workers, "workers", -1, "worker nodes (default: 2 on docker, 0 in a node)")
	f.BoolVar(&o.inNode, "in-node", !haveDocker(), "use a throw-away node although docker is here")
	f.StringVar(&o.source, "source", "", "checkout of Mooring")
	_ = f.MarkHidden("source") // hack/kind sets it
	c.AddCommand(upCommand(o), superviseCommand(o), runCommand(o), loadCommand(o),
		shellCommand(o), downCommand(o), buildCommand(o))
	return c
}

// haveDocker reports whether this user can use a docker of this machine.
func haveDocker() bool {
	return exec.Command("docker", "info", "--format={{.ID}}").Run() == nil
}
