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
		Short: "List the launchers of this node, and their VM processes",
		Long: "Lists the launchers of this node. VM is the process that runs the VM and its state, or\n" +
			"the number of several; PHASE is where the launcher is with it; HEARTBEAT is how long ago\n" +
			"the last one came, where one is expected. MEMLOCK is the memory lock that was given, or\n" +
			"in brackets what was asked for where nothing was given; STATUS is that of the setting\n" +
			"that fared worst. -o wide adds the container, the time left of a lease, and in SEEN the\n" +
			"memory lock that the kernel shows. The reasons for all of it: see inspect.",
		Args: between(0, 0, "none"),
	}
	output := formatFlag(cmd, formatTable, formatWide, formatJSON)
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
	return table(p.Out, psRows(launchers, p.Now(), output == formatWide))
}

// column is one of the table that ps prints.
type column struct {
	title string
	wide  bool // only with -o wide
	cell  func(agentapi.Launcher) string
}

func psColumns(now time.Time) []column {
	type launcher = agentapi.Launcher
	memlock := func(l launcher) agentapi.Setting { return settingNamed(l, agentapi.MemlockSetting) }
	return []column{
		{"NAMESPACE", false, func(l launcher) string { return l.Pod.Namespace }},
		{"POD", false, func(l launcher) string { return l.Pod.Name }},
		{"CONTAINER", true, func(l launcher) string { return l.Container.Name }},
		{"STATE", false, func(l launcher) string { return string(l.State) }},
		{"PHASE", false, func(l launcher) string { return string(l.Phase) }},
		{"VM", false, func(l launcher) string { return vmCell(l.VMs) }},
		{"HEARTBEAT", false, func(l launcher) string { return heartbeatCell(l.Heartbeat) }},
		{"LEASE", true, func(l launcher) string { return leaseCell(l.Lease, now) }},
		{"MEMLOCK", false, func(l launcher) string { return granted(memlock(l)) }},
		{"SEEN", true, func(l launcher) string { return memlock(l).Observed }},
		{"STATUS", false, summary},
		{"AGE", false, func(l launcher) string { return age(l.Since, now) }},
	}
}

func psRows(launchers []agentapi.Launcher, now time.Time, wide bool) [][]string {
	rows := make([][]string, 1+len(launchers))
	for _, c := range psColumns(now) {
		if c.wide && !wide {
			continue
		}
		rows[0] = append(rows[0], c.title)
		for i, l := range launchers {
			rows[i+1] = append(rows[i+1], c.cell(l))
		}
	}
	return rows
}

// granted is what the launcher got, or what it asked for while it got nothing.
func granted(s agentapi.Setting) string {
	if s.Given == "" && s.Requested != "" {
		return "(" + s.Requested + ")"
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
