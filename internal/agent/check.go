package agent

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/api/policy"
)

// checkCommand finds a fault in the policy before it keeps the agent down.
func checkCommand(config *Config) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the node policy, and change nothing",
		Long: "Reads the node policy as the agent would at its start, says what is wrong with it,\n" +
			"and ends with exit code 0 if nothing is. Changes nothing, and needs no agent.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := policy.Load(config.Policy)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is a valid node policy: mode %s, rules: %d\n", config.Policy, p.Mode, len(p.Rules))
			return err
		},
	}
	cmd.Flags().StringVar(&config.Policy, "policy", config.Policy, "node policy file")
	return cmd
}
