package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/hack/throwaway"
	"github.com/mooring-vm/mooring/integration/agent"
	"github.com/mooring-vm/mooring/integration/bench/report"
	"github.com/mooring-vm/mooring/integration/cri"
)

// nodeCommand measures on the throw-away node.
func nodeCommand() *cobra.Command {
	var f measureFlags
	c := &cobra.Command{
		Use: "node",
		Short: "Measure on the throw-away node: creating and starting containers, and the " +
			"agent's memory",
		Long: "Measures on the node that `hack/node run` has booted, with its containerd and the " +
			"agent installed\n" +
			"there by deploy/install.sh. Runs from the top of the checkout.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			n, err := throwaway.AttachCurrent(c.Context())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, n.Stop()) }()
			tables, where, err := measureNode(c.Context(), n, f.amounts())
			if err != nil {
				return err
			}
			return publishOf(tables, where, f.result)
		},
	}
	f.add(c)
	c.Flags().DurationVar(&f.during, "during", 0, "time for creating containers (default 3m): "+
		"longer narrows the interval")
	return c
}

func measureNode(
	ctx context.Context, n *throwaway.Node, a amounts,
) (tables, report.Machine, error) {
	logf("installing Mooring on the node")
	mooring, err := agent.Install(ctx, n, ".", string(nodePolicy))
	if err != nil {
		return nil, report.Machine{}, err
	}
	where, err := describe(ctx, n)
	if err != nil {
		return nil, where, err
	}
	client, err := cri.Connect(n)
	if err != nil {
		return nil, where, err
	}
	defer client.Close()
	t := tables{}
	logf("creating and starting containers with and without Mooring, for %s", a.creations)
	made, err := creations(ctx, client, mooring, a.creations)
	if err != nil {
		return nil, where, err
	}
	t.add(createTable, createRows(made))
	logf("the agent's unit beside %d launchers", residents)
	rows, err := unitMemory(ctx, n, mooring, a.settle)
	if err != nil {
		return nil, where, err
	}
	t.add(nodeAgentTable, rows)
	return t, where, nil
}

// selfOnNode is the path of this program on the node.
const selfOnNode = "/opt/bench/bench"

// describe runs this program on the node to describe the machine.
func describe(ctx context.Context, n *throwaway.Node) (report.Machine, error) {
	if err := n.Push(ctx, "/proc/self/exe", selfOnNode, 0o755); err != nil {
		return report.Machine{}, err
	}
	text, err := n.Output(ctx, selfOnNode, "describe")
	if err != nil {
		return report.Machine{}, err
	}
	m, err := report.ParseMachine(text)
	if err != nil {
		return report.Machine{}, err
	}
	if m.Runtime, err = runtimeVersion(ctx, n); err != nil {
		return report.Machine{}, err
	}
	virtual, err := n.Output(ctx, "systemd-detect-virt")
	m.Emulated = virtual == "qemu" // "kvm" with KVM
	return m, err
}

// runtimeVersion returns the name and version of the node's container runtime.
func runtimeVersion(ctx context.Context, n *throwaway.Node) (string, error) {
	text, err := n.Output(ctx, "containerd", "--version")
	if err != nil {
		return "", err
	}
	fields := strings.Fields(text)
	if len(fields) < 3 {
		return "", fmt.Errorf("containerd --version printed %q: want at least three words", text)
	}
	version, _, _ := strings.Cut(fields[2], "+")
	return fields[0][strings.LastIndex(fields[0], "/")+1:] + " " + version, nil
}

func describeCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "describe",
		Short:  "Describe the machine, as JSON",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			m, err := report.ThisMachine()
			if err != nil {
				return err
			}
			text, err := m.JSON()
			fmt.Println(text)
			return err
		},
	}
}
