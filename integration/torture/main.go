// Command torture does random things to a node with launchers and VMs, and watches
// that Mooring keeps its two promises: no VM outlives its launcher by more than a
// bound, and nothing is killed by mistake. It runs on this machine, and takes itself
// to the node that `hack/node run` has booted.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// settings are what a run is like.
type settings struct {
	steps     int
	seed      uint64
	launchers int           // without those of node-level libvirt
	domains   int           // launchers whose VM is a domain of the node's libvirt
	workers   int           // make launchers anew
	bound     time.Duration // that a VM may outlive its owner while the agent runs
	absolute  time.Duration // that it may in any case
	bare      bool          // without the agent: to see what the checker finds
}

func (s *settings) add(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&s.steps, "steps", 2000, "how many")
	f.Uint64Var(&s.seed, "seed", 1, "of the choice of steps; how they fall in time is not chosen")
	f.IntVar(&s.launchers, "launchers", 12, "at a time")
	f.IntVar(&s.domains, "domains", 2, "further launchers whose VM is a domain of the node's libvirt")
	f.IntVar(&s.workers, "workers", 3, "that make launchers anew")
	f.DurationVar(&s.bound, "bound", 20*time.Second, "how long a VM may outlive its launcher while the agent runs")
	f.DurationVar(&s.absolute, "absolute", 90*time.Second, "how long it may whoever runs")
	f.BoolVar(&s.bare, "bare", false, "without the agent: findings are what is expected then")
}

func (s *settings) args() []string {
	return []string{
		fmt.Sprintf("--steps=%d", s.steps), fmt.Sprintf("--seed=%d", s.seed), fmt.Sprintf("--launchers=%d", s.launchers),
		fmt.Sprintf("--domains=%d", s.domains), fmt.Sprintf("--workers=%d", s.workers),
		fmt.Sprintf("--bound=%s", s.bound), fmt.Sprintf("--absolute=%s", s.absolute), fmt.Sprintf("--bare=%t", s.bare),
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var s settings
	root := &cobra.Command{
		Use:           "torture",
		Short:         "Random faults on the throw-away node, and whether a VM outlives its launcher or is killed by mistake",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(c *cobra.Command, _ []string) error { return fromOutside(c.Context(), s) },
	}
	s.add(root)
	var inside settings
	node := &cobra.Command{
		Use:    "node",
		Short:  "The same, on the node itself",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE:   func(c *cobra.Command, _ []string) error { return onNode(c.Context(), inside) },
	}
	inside.add(node)
	root.AddCommand(node)
	return root
}
