package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/cli/policydiff"
)

func (p *Program) policySuggestCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "suggest",
		Short: "Write a policy that allows the settings of the running launchers",
		Long: "Writes a node policy with a rule for each namespace of the launchers of this node\n" +
			"or of a cluster. A rule allows the largest memory-lock limit of the namespace,\n" +
			"its cgroup files and its domains. By it these launchers keep their settings, and\n" +
			"`policy diff` shows no change. The mode is observe, unless all launchers have\n" +
			"mode enforce.\n\n" +
			"The error output lists launchers without a rule, such as those that the present\n" +
			"policy refuses. Other settings, such as memlock.nodeMax, are left to the author.",
		Example: "  " + p.displayName() + " policy suggest -A > policy.yaml",
		Args:    between(0, 0, "none"),
	}
	var flags viewFlags
	p.addViewFlags(cmd, &flags)
	p.addNodeFlag(cmd, &flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := p.viewCluster(cmd, flags)
		if err != nil {
			return err
		}
		return p.policySuggest(cmd.Context(), c, flags)
	}
	return cmd
}

func (p *Program) policySuggest(ctx context.Context, c *cluster, flags viewFlags) error {
	launchers, err := p.readFacts(ctx, c, flags, nil)
	if err != nil {
		return err
	}
	suggested, err := policydiff.Suggest(launchers)
	if err != nil {
		return err
	}
	for _, why := range suggested.Skipped {
		fmt.Fprintln(p.ErrOut, "no rule for "+oneLine(why))
	}
	fmt.Fprint(p.Out, printable(suggested.YAML))
	return nil
}
