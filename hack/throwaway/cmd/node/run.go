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
		Short: "Build the node's disk, or find it in the cache, and say where it is",
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
		Long: "Boots a node, runs COMMAND here with $" + throwaway.EnvNode + " set to it, and ends the node when the command ends.\n" +
			"The exit code is the command's; where that failed, the node's logs are kept. Should the node end before the\n" +
			"command, the command is ended and the exit code is 125.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := obtain(c.Context(), *o, reuse)
			if err != nil {
				return err
			}
			return besideAndStop(c.Context(), n, args)
		},
	}
	c.Flags().BoolVar(&reuse, "reuse", false, "use the node that is running already, if there is one, and leave it running")
	return c
}

// obtain returns a running node where reuse allows it, and else a new one.
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
		Short: "Remove what is cached for nodes and not in use",
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
