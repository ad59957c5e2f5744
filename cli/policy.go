package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/agent/policycheck"
	"github.com/mooring-vm/mooring/api/policy"
)

// stdin as a FILE stands for standard input.
const stdin = "-"

func (p *Program) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check a node policy, and show its decisions about pods",
		Long: "Reads a node policy from a file. check and explain need no agent, no node and no\n" +
			"root.",
		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.policyCheckCommand(), p.explainCommand(), p.policyDiffCommand(),
		p.policySuggestCommand())
	return cmd
}

func (p *Program) policyCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "List the errors in a node policy",
		Long: "Reads a node policy as the agent does at its start, and lists all errors; the\n" +
			"exit code is then 1. Warns about valid settings that are probably a mistake.\n" +
			"FILE may be - for standard input.",
		Args: between(1, 1, "FILE"),
	}
	output := formatFlag(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.policyCheck(cmd.InOrStdin(), *output, args[0])
	}
	return cmd
}

func (p *Program) policyCheck(in io.Reader, output format, file string) error {
	checked, err := loadPolicy(in, file)
	report := policycheck.NewReport(file, checked, err)
	if output == formatJSON {
		return errors.Join(writeJSON(p.Out, report), err)
	}
	if err != nil {
		return err
	}
	if file == stdin {
		file = "standard input"
	}
	fmt.Fprintln(p.Out, printable(policycheck.Summary(file, checked)))
	for _, w := range report.Warnings {
		fmt.Fprintf(p.Out, "warning: %s\n", printable(w.String()))
	}
	return nil
}

// loadPolicy reads a policy from a file or from in.
func loadPolicy(in io.Reader, file string) (*policy.Policy, error) {
	if file == stdin {
		return policycheck.Read("on standard input", in)
	}
	return policy.Load(file)
}
