package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mooring-vm/mooring/hack/throwaway"
	"github.com/mooring-vm/mooring/hack/throwaway/channel"
)

func execCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "exec [--] COMMAND [ARG...]",
		Short: "Run a command in the running node; its streams, signals and exit code pass through",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return withNode(c.Context(), func(n *throwaway.Node) error {
				return passThrough(n, args)
			})
		},
	}
	c.Flags().SetInterspersed(false)
	return c
}

// withNode calls fn with the node in $MOORING_NODE, or else with the background node.
func withNode(ctx context.Context, fn func(*throwaway.Node) error) error {
	n, err := throwaway.AttachCurrent(ctx)
	if err != nil {
		return err
	}
	return errors.Join(fn(n), n.Stop())
}

// passThrough runs a command in the node. Signals go to the command and do not end the connection.
func passThrough(n *throwaway.Node, args []string) error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	cmd := channel.Command{
		Args: args, Stdin: stdin(), Stdout: os.Stdout, Stderr: os.Stderr, Signals: signals,
	}
	return n.Run(context.Background(), cmd)
}

// stdin returns nil on a terminal, because exec is not interactive. For a terminal there is shell.
func stdin() io.Reader {
	if term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	return os.Stdin
}

func shellCommand(o *throwaway.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "shell",
		Short: "Open a shell in the running node, or in a new one that ends with the shell",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			n, err := obtain(c.Context(), *o, true)
			if err != nil {
				return err
			}
			return errors.Join(shell(c.Context(), n), n.Stop())
		},
	}
}

func shell(ctx context.Context, n *throwaway.Node) error {
	fd := int(os.Stdin.Fd())
	if !term.IsTerminal(fd) {
		return passThrough(n, []string{"/bin/bash", "-l"})
	}
	before, err := term.MakeRaw(fd)
	if err != nil {
		return err
	}
	defer term.Restore(fd, before) //nolint:errcheck // the process ends
	size := func() channel.Size {
		columns, rows, _ := term.GetSize(fd)
		return channel.Size{Rows: rows, Columns: columns}
	}
	first, resized := size(), make(chan channel.Size, 1)
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	defer signal.Stop(changed)
	go func() {
		for range changed {
			resized <- size()
		}
	}()
	return n.Run(ctx, channel.Command{
		Args: []string{"/bin/bash", "-l"}, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		PTY: &first, Resized: resized,
	})
}

func pushCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "push LOCAL REMOTE",
		Short: "Copy a file into the running node, with its mode",
		Args:  cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			info, err := os.Stat(args[0])
			if err != nil {
				return err
			}
			return withNode(c.Context(), func(n *throwaway.Node) error {
				return n.Push(c.Context(), args[0], args[1], info.Mode().Perm())
			})
		},
	}
}

func pullCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "pull REMOTE LOCAL",
		Short: "Copy a file out of the running node",
		Args:  cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return withNode(c.Context(), func(n *throwaway.Node) error {
				return n.Pull(c.Context(), args[0], args[1])
			})
		},
	}
}
