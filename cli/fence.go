package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/cli/fence"
	"github.com/mooring-vm/mooring/cli/uninstall"
	"github.com/mooring-vm/mooring/internal/kubeclient"
)

// fenceOptions are the flags of fence.
type fenceOptions struct {
	kubeconfig         string
	force, off, dryRun bool
}

func (p *Program) fenceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fence [NODE]",
		Short: "Show deleted pods that wait for their VMs, or release the pods of a dead node",
		Long: "With fencing, a deleted launcher pod stays until its VM is proven gone. Without\n" +
			"NODE, shows the waiting pods, their age, and the missing proof.\n\n" +
			"With NODE, releases the deleted pods of this node: KubeVirt and StatefulSets\n" +
			"then start their VMs elsewhere. Make sure first that the machine is off or\n" +
			"cut off from its storage, because otherwise a VM runs twice. An Event on each\n" +
			"pod has the evidence. The command refuses a node that is ready, or whose agent\n" +
			"has reported lately. --force releases all the same.\n\n" +
			"With --off, removes the finalizer from all pods, living ones included. Turn\n" +
			"fencing off in the chart first.\n\n" +
			"Requires a role with the verbs \"list\" and \"patch\" for pods, \"get\" for nodes\n" +
			"and nodestates, and \"create\" for events, in the whole cluster.",
		Example: fmt.Sprintf("  %[1]s fence\n  %[1]s fence node-7", p.displayName()),
		Args:    between(0, 1, "NODE or none"),
	}
	var o fenceOptions
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, kubeconfigFlag, "",
		"`file` of the cluster, or "+kubeclient.InCluster+" for the pod's service account "+
			"(default: KUBECONFIG, or kubectl's)")
	flags.BoolVar(&o.force, "force", false, "with NODE: also release pods of a node that lives")
	flags.BoolVar(&o.off, "off", false, "remove the finalizer from all pods")
	flags.BoolVar(&o.dryRun, "dry-run", false, "with --off: list the actions without executing them")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return p.fence(cmd, o, args) }
	return cmd
}

func (p *Program) fence(cmd *cobra.Command, o fenceOptions, args []string) error {
	switch {
	case o.off && (len(args) > 0 || o.force):
		return usage("--off: want neither NODE nor --force")
	case o.force && len(args) == 0:
		return usage("--force: want NODE")
	case o.dryRun && !o.off:
		return usage("--dry-run: want it with --off alone")
	}
	named, err := p.requireCluster(cmd, o.kubeconfig)
	if err != nil {
		return err
	}
	client, err := uninstall.NewClient(named.config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	show := func(line string) { fmt.Fprintln(p.Out, oneLine(line)) }
	ctx, cancel := context.WithTimeout(cmd.Context(), uninstallTimeout)
	defer cancel()
	c := &fence.Cluster{Client: client, Now: p.Now, Print: show}
	switch {
	case o.off:
		all := uninstall.Cluster{Client: client, Report: uninstall.Report{Print: show,
			DryRun: o.dryRun}}
		return all.ReleasePods(ctx)
	case len(args) > 0:
		return c.Release(ctx, args[0], o.force)
	}
	return p.listFenced(ctx, c)
}

func (p *Program) listFenced(ctx context.Context, c *fence.Cluster) error {
	all, err := c.List(ctx, "")
	if err != nil {
		return err
	}
	rows := [][]string{{"POD", "NODE", "AGE", "REASON", "MESSAGE"}}
	for _, w := range all {
		rows = append(rows, []string{w.Pod.Namespace + "/" + w.Pod.Name, w.Pod.Spec.NodeName,
			age(w.Pod.DeletionTimestamp.Time, p.Now()), string(w.Reason), w.Message})
	}
	return table(p.Out, rows)
}
