// Command torture applies random faults to a node with launchers and VMs, and checks Mooring's two
// promises: no VM outlives its launcher by more than a bound, and no process is killed by mistake.
// It starts on this machine and copies itself to the node booted by `hack/node run`.
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

// settings configure a run.
type settings struct {
	steps     int
	seed      uint64
	launchers int           // without node-level libvirt
	domains   int           // launchers whose VM is a domain of the node's libvirt
	workers   int           // concurrent renewals of launchers
	bound     time.Duration // by which a VM may outlive its owner while the agent runs
	absolute  time.Duration // by which it may do so in any case
	bare      bool          // without the agent, to test the checker
}

func (s *settings) add(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&s.steps, "steps", 2000, "number of steps")
	f.Uint64Var(&s.seed, "seed", 1, "seed for the choice of steps, not for their timing")
	f.IntVar(&s.launchers, "launchers", 12, "number of launchers at a time")
	f.IntVar(&s.domains, "domains", 2, "additional launchers whose VM is a domain of the node's libvirt")
	f.IntVar(&s.workers, "workers", 3, "number of concurrent renewals of launchers")
	f.DurationVar(&s.bound, "bound", 20*time.Second, "how long a VM may outlive its launcher while the agent runs")
	f.DurationVar(&s.absolute, "absolute", 90*time.Second, "how long a VM may outlive its launcher in any case")
	f.BoolVar(&s.bare, "bare", false, "run without the agent, which leads to findings")
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
		Short:         "Apply random faults to the throw-away node and check the VMs",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(c *cobra.Command, _ []string) error { return fromOutside(c.Context(), s) },
	}
	s.add(root)
	var inside settings
	node := &cobra.Command{
		Use:    "node",
		Short:  "Apply the faults on the node itself",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE:   func(c *cobra.Command, _ []string) error { return onNode(c.Context(), inside) },
	}
	inside.add(node)
	root.AddCommand(node)
	return root
}
