package agent

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/agent/policycheck"
	"github.com/mooring-vm/mooring/api/policy"
)

// checkCommand finds errors in the policy before they prevent the agent's start.
func checkCommand(config *Config) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the node policy, and change nothing",
		Long: "Reads the node policy as the agent does at its start, and prints its errors.\n" +
			"Ends with exit code 0 for a policy without errors. Warns of valid settings that\n" +
			"are probably mistakes. Changes nothing, and needs no agent. `mooring policy\n" +
			"check` does the same.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := policy.Load(config.Policy)
			if err != nil {
				return err
			}
			for _, w := range policycheck.Warnings(p) {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", w)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), policycheck.Summary(config.Policy, p))
			return err
		},
	}
	cmd.Flags().StringVar(&config.Policy, "policy", config.Policy, "node policy file")
	return cmd
}
