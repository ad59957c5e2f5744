package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/hack/throwaway"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
	"github.com/mooring-vm/mooring/hack/throwaway/vm"
)

func imageCommand(o *throwaway.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "image",
		Short: "Build the node's disk, or find it in the cache, and print its path",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			img, err := throwaway.Build(c.Context(), *o)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "kernel %s\ndisk   %s\n", img.Kernel, img.Disk)
			return img.Close()
		},
	}
}

func runCommand(o *throwaway.Options) *cobra.Command {
	var reuse bool
	c := &cobra.Command{
		Use:   "run -- COMMAND [ARG...]",
		Short: "Run a command of this machine with a node beside it",
		Long: "Boots a node and runs COMMAND on this machine with the node in $" +
			throwaway.EnvNode + ".\n" +
			"The node ends with the command. The exit code is the command's. If the command\n" +
			"fails, hack/node keeps the node's logs. If the node ends before the command,\n" +
			"hack/node ends the command, and the exit code is 125.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := obtain(c.Context(), *o, reuse)
			if err != nil {
				return err
			}
			return runBesideAndStop(c.Context(), n, args)
		},
	}
	c.Flags().BoolVar(&reuse, "reuse", false, "use a running node, if any, and do not end it")
	return c
}

// obtain returns a new node, or the running one if reuse allows it.
func obtain(ctx context.Context, o throwaway.Options, reuse bool) (*throwaway.Node, error) {
	if reuse {
		n, err := throwaway.AttachCurrent(ctx)
		if !errors.Is(err, throwaway.ErrNoNode) {
			return n, err
		}
	}
	return throwaway.Start(ctx, o)
}

func cleanCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "clean",
		Short: "Remove the unused caches of nodes",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			store, err := cache.Default()
			if err != nil {
				return err
			}
			if err := cleanVerdicts(c, store); err != nil {
				return err
			}
			for _, name := range image.CacheNames() {
				removed, err := store.Prune(name, 0)
				for _, dir := range removed {
					fmt.Fprintln(c.OutOrStdout(), "removed", dir)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func cleanVerdicts(c *cobra.Command, store *cache.Store) error {
	dir, found, err := vm.ForgetVerdicts(store)
	if found {
		fmt.Fprintln(c.OutOrStdout(), "removed", dir)
	}
	return err
}
