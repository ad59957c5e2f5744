// Command kubevirtnode runs the real KubeVirt on a throw-away node.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/hack/kubevirtnode"
	"github.com/mooring-vm/mooring/hack/plainlog"
	"github.com/mooring-vm/mooring/hack/throwaway"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "kubevirtnode", SilenceUsage: true, SilenceErrors: true,
		Short: "Run the real KubeVirt on a throw-away node"}
	root.AddCommand(buildCommand(), runCommand())
	err := root.ExecuteContext(ctx)
	var failed commandError
	if errors.As(err, &failed) {
		return max(1, failed.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hack/kubevirtnode:", err)
		return 1
	}
	return 0
}

// commandError is a failed exit of the user's command. It has printed its own error.
type commandError struct{ *exec.ExitError }

func buildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build virt-handler, virt-launcher and their image, or find them in the cache",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return kubevirtnode.Build(c.Context(), plainlog.New(os.Stderr, "hack/kubevirtnode"))
		},
	}
}

func runCommand() *cobra.Command {
	var o kubevirtnode.Options
	cmd := &cobra.Command{
		Use:   "run [--nodes=N] [--image=ARCHIVE...] [--upgrade=VERSION] -- COMMAND [ARG...]",
		Short: "Run a command of this machine with a new cluster, which ends with it",
		Long: "Starts a control plane and KubeVirt's controllers on this machine and nodes " +
			"with\nvirt-handler, and runs COMMAND with $KUBECONFIG, $" + throwaway.EnvNode +
			" and $" + kubevirtnode.EnvSecondNode + ".\n" +
			"With --upgrade, COMMAND may upgrade KubeVirt by the socket $" +
			kubevirtnode.EnvUpgrade + ".\n" +
			"The cluster ends with the command. The exit code is the command's.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runWithCluster(c.Context(), o, args)
		},
	}
	cmd.Flags().IntVar(&o.Nodes, "nodes", 1, "number of nodes, 1 or 2")
	cmd.Flags().StringSliceVar(&o.Archives, "image", nil,
		"further archives of container images for the nodes")
	cmd.Flags().StringVar(&o.Upgrade, "upgrade", "", "KubeVirt's version after an upgrade")
	return cmd
}

func runWithCluster(
	ctx context.Context, o kubevirtnode.Options, args []string,
) (err error) {
	o.Log = plainlog.New(os.Stderr, "hack/kubevirtnode")
	c, err := kubevirtnode.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	kubeconfig, err := c.Plane.AdminKubeconfigFor(c.Plane.Config().Host)
	if err != nil {
		return err
	}
	cmd := child.Command(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	for i, name := range []string{throwaway.EnvNode, kubevirtnode.EnvSecondNode}[:len(c.Nodes)] {
		cmd.Env = append(cmd.Env, name+"="+c.Nodes[i].Dir())
	}
	if o.Upgrade != "" {
		socket, err := c.ServeUpgrade(ctx)
		if err != nil {
			return err
		}
		cmd.Env = append(cmd.Env, kubevirtnode.EnvUpgrade+"="+socket)
	}
	err = child.Run(cmd)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return commandError{exit}
	}
	return err
}
