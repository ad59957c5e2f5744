package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/api/agentapi"
)

func (p *Program) psCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the launchers of this node",
		Long: "Lists the launchers of this node. MEMLOCK is the memory lock that was given, or in\n" +
			"brackets what was asked for where nothing was given; SEEN is what the kernel shows;\n" +
			"STATUS is that of the setting that fared worst, see inspect.",
		Args: between(0, 0, "none"),
	}
	output := formatFlag(cmd, formatTable, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return p.ps(cmd.Context(), *output) }
	return cmd
}

func (p *Program) ps(ctx context.Context, output format) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	launchers, err := p.client().Launchers(ctx)
	if err != nil {
		return err
	}
	if output == formatJSON {
		return writeJSON(p.Out, launchers)
	}
	if len(launchers) == 0 {
		fmt.Fprintln(p.ErrOut, "no launchers on this node")
		return nil
	}
	return table(p.Out, psRows(launchers, p.Now()))
}

func psRows(launchers []agentapi.Launcher, now time.Time) [][]string {
	rows := [][]string{{"NAMESPACE", "POD", "CONTAINER", "STATE", "MEMLOCK", "SEEN", "STATUS", "AGE"}}
	for _, l := range launchers {
		memlock := settingNamed(l, agentapi.MemlockSetting)
		rows = append(rows, []string{
			l.Pod.Namespace, l.Pod.Name, l.Container.Name, string(l.State),
			granted(memlock), memlock.Seen, summary(l), age(l.Since, now),
		})
	}
	return rows
}

// granted is what the launcher got, or what it asked for while it got nothing.
func granted(s agentapi.Setting) string {
	if s.Given == "" && s.Asked != "" {
		return "(" + s.Asked + ")"
	}
	return s.Given
}

func settingNamed(l agentapi.Launcher, name string) agentapi.Setting {
	for _, setting := range l.Settings {
		if setting.Name == name {
			return setting
		}
	}
	return agentapi.Setting{}
}

// bySeverity orders the statuses by how much a reader should care.
var bySeverity = []agentapi.Status{
	agentapi.StatusDiffers, agentapi.StatusUnknown, agentapi.StatusIneffective, agentapi.StatusRepaired,
	agentapi.StatusPending, agentapi.StatusYielded, agentapi.StatusObserved, agentapi.StatusApplied,
}

// summary is the status of the launcher's setting that fared worst.
func summary(l agentapi.Launcher) string {
	switch {
	case l.State == agentapi.StateRefused:
		return "refused"
	case l.Refusal != "": // observe mode, or it was there before the policy
		return "would-refuse"
	}
	for _, status := range bySeverity {
		if slices.ContainsFunc(l.Settings, func(s agentapi.Setting) bool { return s.Status == status }) {
			return string(status)
		}
	}
	return ""
}
