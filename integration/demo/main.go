// Command demo shows the four parts of Mooring. Three run on the throw-away node: a memory
// lock, a VM that ends with its pod, a VM that grows and shrinks. The fourth runs on a control
// plane of this machine: a migration through a full quota. It exits with 1 if any check fails.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/mooring-vm/mooring/hack/throwaway"
	"github.com/mooring-vm/mooring/integration/agent"
	"github.com/mooring-vm/mooring/integration/cri"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, newScreen(os.Stdout))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s *screen) (err error) {
	n, err := throwaway.AttachCurrent(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Stop()) }()
	client, err := cri.Connect(n)
	if err != nil {
		return err
	}
	defer client.Close()
	d := &demo{node: n, cri: client, screen: s}
	d.cluster = startCluster(ctx)
	defer func() {
		// After an interruption the programs have got the signal, too.
		if stopped := d.cluster.stop(); ctx.Err() == nil {
			err = errors.Join(err, stopped)
		}
	}()
	s.step("installing Mooring on the node: deploy/install.sh, with a policy that enforces")
	err = s.during("building the agent, copying it to the node and installing it", func() error {
		d.agent, err = agent.Install(ctx, n, ".", policy)
		return err
	})
	if err != nil {
		return err
	}
	return d.run(ctx)
}
