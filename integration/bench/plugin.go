package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// pluginOptions are the options of one candidate. Each candidate runs in its own process with its
// own garbage collector and scheduler, like a plugin on a node.
type pluginOptions struct {
	socket string // of the runtime
	root   string // of the pod directories
}

// The compared plugins.
const (
	empty   = "empty plugin" // the baseline
	ulimits = "like ulimit-adjuster"
	answer  = "Mooring's answer alone"
	mooring = "Mooring"
)

func candidates() []string { return []string{empty, ulimits, answer, mooring} }

func serve(ctx context.Context, kind string, o pluginOptions, connect <-chan struct{}) error {
	switch kind {
	case empty:
		return serveStub(ctx, o, emptyPlugin{}, connect)
	case ulimits:
		return serveStub(ctx, o, ulimitsPlugin{}, connect)
	case answer:
		return serveStub(ctx, o, answerPlugin{}, connect)
	case mooring:
		return serveMooring(ctx, o, connect)
	}
	return fmt.Errorf("plugin %q: want one of %v", kind, candidates())
}

// pluginCommand runs a candidate. It prints when it is ready, connects after the first input line,
// and ends with its input.
func pluginCommand() *cobra.Command {
	var o pluginOptions
	c := &cobra.Command{
		Use:       "plugin KIND",
		Short:     "Run one of the compared plugins",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: candidates(),
		Hidden:    true,
		RunE: func(c *cobra.Command, args []string) error {
			ctx, connect := follow(c.Context(), os.Stdin)
			fmt.Println("ready")
			return serve(ctx, args[0], o, connect)
		},
	}
	c.Flags().StringVar(&o.socket, "socket", "", "the runtime's socket for plugins")
	c.Flags().StringVar(&o.root, "root", "", "folder for pod directories")
	return c
}

// follow reads orders. The first line closes the channel, and the end of the input ends the
// context.
func follow(ctx context.Context, in io.Reader) (context.Context, <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	connect := make(chan struct{})
	go func() {
		defer cancel()
		lines := bufio.NewScanner(in)
		if lines.Scan() {
			close(connect)
		}
		for lines.Scan() { // until the end
			continue
		}
	}()
	return ctx, connect
}
