// Command demo shows on the throw-away node what Mooring does: it installs the
// agent as a user would, creates pods through CRI, and prints beside each other
// what they asked for and what the kernel shows.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/mooring-vm/mooring/hack/throwaway"
	"github.com/mooring-vm/mooring/integration/agent"
	"github.com/mooring-vm/mooring/integration/cri"
)

//go:embed policy.yaml
var policy string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	n, err := throwaway.AttachCurrent(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Stop()) }()
	say("installing Mooring on the node: deploy/install.sh, with a policy that enforces")
	a, err := agent.Install(ctx, n, ".", policy)
	if err != nil {
		return err
	}
	client, err := cri.Connect(n)
	if err != nil {
		return err
	}
	defer client.Close()
	d := demo{node: n, agent: a, cri: client}
	if err := d.run(ctx); err != nil {
		return err
	}
	farewell()
	return nil
}

func say(format string, args ...any) { fmt.Printf("--> "+format+"\n", args...) }

func farewell() {
	fmt.Print(`
On a node of "hack/node up" the pods stay until the next "make run". To look around there: hack/node shell,
then mooring ps, mooring inspect POD, mooring watch. hack/node down ends the node.
`)
}
