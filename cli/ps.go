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
		Short: "List the launchers of this node and their VM processes",
		Long: "Lists the launchers of this node. VM is the VM process with its state, or the\n" +
			"number of VM processes. PHASE is the phase of the launcher's tie. HEARTBEAT is\n" +
			"the age of the last heartbeat, if heartbeats are expected. MEMLOCK is the\n" +
			"granted memory-lock limit, or in brackets the requested one if none was\n" +
			"granted. STATUS is the worst status among the settings. -o wide adds the\n" +
			"container, the remaining time of a lease, and in SEEN the limit in the kernel.\n" +
			"inspect shows the reasons.",
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

// column is a column of ps.
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

// granted returns the granted amount, or the requested one in brackets.
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

// bySeverity orders the statuses from worst to best.
var bySeverity = []agentapi.Status{
	agentapi.StatusDiffers, agentapi.StatusUnknown, agentapi.StatusIneffective,
	agentapi.StatusRepaired,
	agentapi.StatusPending, agentapi.StatusYielded, agentapi.StatusObserved, agentapi.StatusApplied,
}

// summary is the worst status among the launcher's settings.
func summary(l agentapi.Launcher) string {
	switch {
	case l.State == agentapi.StateRefused:
		return "refused"
	case l.Refusal != "": // in observe mode, or created before the policy
		return "would-refuse"
	}
	for _, status := range bySeverity {
		if slices.ContainsFunc(l.Settings, func(s agentapi.Setting) bool {
			return s.Status == status
		}) {
			return string(status)
		}
	}
	return ""
}
