// Command torture applies random faults to a node with launchers and VMs and checks two promises of
// Mooring: a VM outlives its launcher only by a bounded time, and Mooring kills no other process.
// The command starts on this machine and copies itself to the node of `hack/node run`.
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
	domains   int           // launchers with a VM in the node's libvirt
	workers   int           // concurrent renewals of launchers
	bound     time.Duration // limit for an orphan's life while the agent runs
	absolute  time.Duration // limit for an orphan's life in any case
	bare      bool          // run without the agent, to test the checker
}

func (s *settings) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&s.steps, "steps", 2000, "number of steps")
	f.Uint64Var(&s.seed, "seed", 1, "seed for the choice of steps, not for their timing")
	f.IntVar(&s.launchers, "launchers", 12, "number of launchers at a time")
	f.IntVar(&s.domains, "domains", 2,
		"number of additional launchers with a VM in the node's libvirt")
	f.IntVar(&s.workers, "workers", 3, "number of concurrent renewals of launchers")
	f.DurationVar(&s.bound, "bound", 20*time.Second,
		"how long a VM may outlive its launcher while the agent runs")
	f.DurationVar(&s.absolute, "absolute", 90*time.Second,
		"how long a VM may outlive its launcher in any case")
	f.BoolVar(&s.bare, "bare", false, "run without the agent, which leads to findings")
}

func (s *settings) args() []string {
	return []string{
		fmt.Sprintf("--steps=%d", s.steps), fmt.Sprintf("--seed=%d", s.seed),
		fmt.Sprintf("--launchers=%d", s.launchers), fmt.Sprintf("--domains=%d", s.domains),
		fmt.Sprintf("--workers=%d", s.workers), fmt.Sprintf("--bound=%s", s.bound),
		fmt.Sprintf("--absolute=%s", s.absolute), fmt.Sprintf("--bare=%t", s.bare),
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
		RunE: func(c *cobra.Command, _ []string) error {
			return runFromHost(c.Context(), s)
		},
	}
	s.addFlags(root)
	var onNode settings
	node := &cobra.Command{
		Use:    "node",
		Short:  "Apply the faults on the node itself",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE:   func(c *cobra.Command, _ []string) error { return runOnNode(c.Context(), onNode) },
	}
	onNode.addFlags(node)
	root.AddCommand(node)
	return root
}
