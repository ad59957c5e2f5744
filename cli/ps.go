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
		Short: "List launchers and their VM processes",
		Long: "Lists launchers: those of this node, or those of a namespace of a cluster, with\n" +
			"their node. VM is the VM process with its state, or the\n" +
			"number of VM processes. PHASE is the phase of the launcher's tie. HEARTBEAT is\n" +
			"the age of the last heartbeat, if heartbeats are expected. MEMLOCK is the\n" +
			"granted memory-lock limit, or in brackets the requested one if none was\n" +
			"granted. STATUS is the worst status among the settings. -o wide adds the\n" +
			"container, the remaining time of a lease, and in SEEN the limit in the kernel.\n" +
			"inspect shows the reasons.\n\n" +
			"A cluster's launchers are as old as the states that the agents write: at most\n" +
			"a minute. Nodes without an answer are on the error output.",
		Example: "  " + p.displayName() + " ps -A\n  " + p.displayName() +
			" ps -n vms -o jsonpath='{[*].pod.name}'",
		Args: between(0, 0, "none"),
	}
	var flags viewFlags
	var output outputFlags
	output.add(cmd, formatTable, formatWide)
	output.addWatch(cmd)
	p.addViewFlags(cmd, &flags)
	p.addNodeFlag(cmd, &flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return p.list(cmd, flags, &output, (*Program).writePs)
	}
	return cmd
}

// list writes the launchers of the flags, and with -w again each one that changes.
func (p *Program) list(cmd *cobra.Command, flags viewFlags, output *outputFlags,
	write viewWriter) error {
	c, err := p.viewCluster(cmd, flags)
	if err != nil {
		return err
	}
	read := func(ctx context.Context) (*view, error) {
		defer p.reading(c, "the launchers")()
		v, err := p.readView(ctx, c, flags.namespaceOf(c))
		if err == nil && flags.node != "" {
			err = v.keepNode(flags.node)
		}
		return v, err
	}
	if output.watch {
		w := &viewWatch{Program: p, read: read, write: write, output: output, started: p.Now(),
			open: func(ctx context.Context) (<-chan struct{}, func(), error) {
				return p.changes(ctx, c)
			}}
		return w.run(cmd.Context())
	}
	v, err := read(cmd.Context())
	if err != nil {
		return err
	}
	return write(p, v, output)
}

func (p *Program) writePs(v *view, output *outputFlags) error {
	p.writeNotes(v.notes)
	if output.isData() {
		return output.writeData(p.Out, v.launchers, names(v.launchers))
	}
	if len(v.launchers) == 0 {
		fmt.Fprintln(p.ErrOut, "no launchers "+v.where())
		return nil
	}
	return output.writeTable(p.Out, psRows(v, p.Now(), output.isWide()))
}

// column is a column of a list of launchers.
type column struct {
	title string
	shown bool
	cell  func(nodeLauncher) string
}

func psColumns(v *view, now time.Time, wide bool) []column {
	type launcher = nodeLauncher
	memlock := func(l launcher) agentapi.Setting {
		return settingNamed(l.Launcher, agentapi.MemlockSetting)
	}
	return []column{
		{"NAMESPACE", true, func(l launcher) string { return l.Pod.Namespace }},
		{"POD", true, func(l launcher) string { return l.Pod.Name }},
		{"CONTAINER", wide, func(l launcher) string { return l.Container.Name }},
		{"STATE", true, func(l launcher) string { return string(l.State) }},
		{"PHASE", true, func(l launcher) string { return string(l.Phase) }},
		{"VM", true, func(l launcher) string { return vmCell(l.VMs) }},
		{"HEARTBEAT", true, func(l launcher) string { return heartbeatCell(l.Heartbeat) }},
		{"LEASE", wide, func(l launcher) string { return leaseCell(l.Lease, now) }},
		{"MEMLOCK", true, func(l launcher) string { return granted(memlock(l)) }},
		{"SEEN", wide, func(l launcher) string { return memlock(l).Observed }},
		{"STATUS", true, func(l launcher) string { return summary(l.Launcher) }},
		{"AGE", true, func(l launcher) string { return age(l.Since, now) }},
		{"NODE", v.inCluster, func(l launcher) string { return l.Node }},
	}
}

func psRows(v *view, now time.Time, wide bool) [][]string {
	return launcherRows(v.launchers, psColumns(v, now, wide))
}

// launcherRows returns the titles and one row for each launcher.
func launcherRows(launchers []nodeLauncher, columns []column) [][]string {
	rows := make([][]string, 1+len(launchers))
	for _, c := range columns {
		if !c.shown {
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
