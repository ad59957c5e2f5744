package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/cli/policydiff"
)

// changesError reports that another policy changes launchers.
type changesError struct{ policydiff.Report }

func (e *changesError) Error() string {
	return fmt.Sprintf("the policy changes %d of %d launchers: %d would be refused, %d are unknown",
		len(e.Changes), e.Launchers, e.Count(policydiff.Refused), e.Count(policydiff.Unknown))
}

func (e *changesError) exitCode() int {
	if e.Count(policydiff.Refused) > 0 {
		return ExitRefused
	}
	return ExitChanges
}

func (p *Program) policyDiffCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff POLICY",
		Short: "Show the launchers that another policy would change",
		Long: "Decides with another policy about each launcher of this node or of a cluster, as\n" +
			"if its pod were created again while the others run. Lists each launcher with\n" +
			"another mode, memory-lock limit, cgroup setting or refusal, and the reason.\n" +
			"Changes nothing. The agent decides by the same code.\n\n" +
			"POLICY is the file of a policy or NodePolicy, or - for standard input. Its node\n" +
			"selector selects nodes of a cluster. In a cluster, the command also reads pods\n" +
			"and nodes. It needs the right to list the pods of all namespaces, because the\n" +
			"launchers of a node share its account.\n\n" +
			"Exit code 0: no change. 6: mode enforce would refuse a launcher that it does not\n" +
			"refuse today. 7: other changes, or an unknown result.",
		Example: "  " + p.displayName() + " policy diff -A policy.yaml",
		Args:    between(1, 1, "POLICY"),
	}
	var flags viewFlags
	output := formatFlag(cmd, formatTable, formatJSON)
	p.addViewFlags(cmd, &flags)
	p.addNodeFlag(cmd, &flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := p.viewCluster(cmd, flags)
		if err != nil {
			return err
		}
		file, err := readPolicyFile(cmd.InOrStdin(), args[0])
		if err != nil {
			return err
		}
		return p.policyDiff(cmd.Context(), c, flags, file, *output)
	}
	return cmd
}

func (p *Program) policyDiff(ctx context.Context, c *cluster, flags viewFlags, file policyFile,
	output format) error {
	launchers, err := p.readFacts(ctx, c, flags, file.selector)
	if err != nil {
		return err
	}
	report := policydiff.Diff(file.policy, launchers)
	if output == formatJSON {
		err = writeJSON(p.Out, report)
	} else {
		err = p.writeChanges(report, c != nil)
	}
	if err != nil {
		return err
	}
	if len(report.Changes) > 0 {
		return &changesError{report}
	}
	return nil
}

func (p *Program) writeChanges(report policydiff.Report, inCluster bool) error {
	if len(report.Changes) == 0 {
		fmt.Fprintf(p.Out, "no change; launchers: %d\n", report.Launchers)
		return nil
	}
	titles := []string{"NAMESPACE", "POD", "CONTAINER", "TODAY", "NEXT"}
	if inCluster {
		titles = append(titles, "NODE")
	}
	rows := [][]string{titles}
	for _, c := range report.Changes {
		next := unknown
		if c.Next != nil {
			next = c.Next.String()
		}
		row := []string{c.Pod.Namespace, c.Pod.Name, c.Container, c.Today.String(), next}
		if inCluster {
			row = append(row, c.Node)
		}
		rows = append(rows, row)
	}
	if err := table(p.Out, rows); err != nil {
		return err
	}
	for _, c := range report.Changes {
		section(p.Out, c.Pod.Namespace+"/"+c.Pod.Name, c.Reason)
	}
	return nil
}
