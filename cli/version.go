package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/internal/buildinfo"
)

// versions is the output of `version -o json`.
type versions struct {
	Client buildinfo.Info `json:"client"`
	Agent  *agentapi.Node `json:"agent,omitempty"`
}

func (p *Program) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of this tool, the agent and the container runtime",
		Args:  between(0, 0, "none"),
	}
	output := formatFlag(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return p.version(cmd.Context(), *output)
	}
	return cmd
}

// version succeeds without an agent, because the CLI's own version is always available.
func (p *Program) version(ctx context.Context, output format) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	v := versions{Client: p.Build}
	node, err := p.client().Node(ctx)
	if err == nil {
		v.Agent = &node
	}
	if output == formatJSON {
		return writeJSON(p.Out, v)
	}
	if err != nil {
		fmt.Fprintf(p.ErrOut, "%s\n", printable(err.Error()))
	}
	return table(p.Out, versionRows(v))
}

func versionRows(v versions) [][]string {
	rows := [][]string{{"mooring:", v.Client.String()}}
	if v.Agent == nil {
		return append(rows, []string{"mooring-agent:", ""})
	}
	nri := string(v.Agent.NRI.State)
	if v.Agent.NRI.Error != "" {
		nri += ": " + v.Agent.NRI.Error
	}
	return append(rows,
		[]string{"mooring-agent:", v.Agent.Version},
		[]string{"policy:", v.Agent.Mode + ", " + v.Agent.Policy},
		[]string{"NRI:", nri},
		[]string{"runtime:",
			strings.TrimSpace(v.Agent.Runtime.Name + " " + v.Agent.Runtime.Version)},
		[]string{"memlock granted:", account(v.Agent.Memlock)},
		[]string{"tracker:", trackerText(v.Agent.Tracker)},
	)
}
