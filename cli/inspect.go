package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

func (p *Program) inspectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect POD",
		Short: "Show requested, allowed, granted and actual settings of a launcher",
		Long: "Shows each setting of a launcher side by side: requested by annotations,\n" +
			"allowed by the node policy, granted to the container, and read from the kernel.\n" +
			"Then shows its VM processes with state, age and reason.\n\n" +
			"POD is NAMESPACE/NAME, an unambiguous NAME, or the pod's UID. With -o json the\n" +
			"answer is a list, because several pods in a row can have the same name.",
		Args: between(1, 1, "POD: NAMESPACE/NAME, NAME or UID"),
	}
	var flags viewFlags
	var output outputFlags
	output.add(cmd, formatTable)
	p.addViewFlags(cmd, &flags)
	cmd.ValidArgsFunction = p.completePods(&flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.inspect(cmd, flags, &output, args[0])
	}
	return cmd
}

func (p *Program) inspect(cmd *cobra.Command, flags viewFlags, output *outputFlags,
	pod string) error {
	c, err := p.viewCluster(cmd, flags)
	if err != nil {
		return err
	}
	end := p.reading(c, "the launchers")
	launchers, err := p.findLaunchers(cmd.Context(), c, flags, pod)
	end()
	if err != nil {
		return err
	}
	if output.isData() {
		return output.writeData(p.Out, launchers, names(launchers))
	}
	for i, l := range launchers {
		if i > 0 {
			fmt.Fprintln(p.Out)
		}
		if l.Node != "" {
			fmt.Fprintf(p.Out, "Node:       %s\n", oneLine(l.Node))
		}
		if err := describe(p.Out, l.Launcher, p.Now()); err != nil {
			return err
		}
	}
	return nil
}

// findLaunchers returns the launchers of a pod, in a cluster or without one on this node.
func (p *Program) findLaunchers(ctx context.Context, c *cluster, flags viewFlags, pod string) (
	[]nodeLauncher, error,
) {
	if c != nil {
		v, err := p.readView(ctx, c, flags.namespace)
		if err != nil {
			return nil, err
		}
		return v.find(pod)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	found, err := find(ctx, p.client(), flags.prefixed(pod))
	if err != nil {
		return nil, err
	}
	launchers := make([]nodeLauncher, 0, len(found))
	for _, l := range found {
		launchers = append(launchers, nodeLauncher{Launcher: l})
	}
	return launchers, nil
}

func describe(w io.Writer, l agentapi.Launcher, now time.Time) error {
	if err := table(w, append(heading(l, now), lifeRows(l, now)...)); err != nil {
		return err
	}
	section(w, refusalTitle(l), l.Refusal)
	if len(l.VMs) > 0 {
		if err := paragraph(w, vmRows(l.VMs, now)); err != nil {
			return err
		}
	}
	if len(l.Settings) > 0 {
		if err := paragraph(w, settingRows(l.Settings)); err != nil {
			return err
		}
	}
	for _, s := range l.Settings {
		section(w, s.Name, s.Message)
		if err := sum(w, s); err != nil {
			return err
		}
	}
	section(w, "Pinned memory", strings.Join(pinTexts(l), "\n"))
	describeResize(w, l.Resize, now)
	section(w, "Notes", strings.Join(l.Notes, "\n"))
	return nil
}

// paragraph writes an empty line and a table.
func paragraph(w io.Writer, rows [][]string) error {
	fmt.Fprintln(w)
	return table(w, rows)
}

func heading(l agentapi.Launcher, now time.Time) [][]string {
	rule := "no rule"
	if l.Rule != "" {
		rule = "rule " + strconv.Quote(l.Rule)
	}
	state := string(l.State)
	if since := age(l.Since, now); since != "" {
		state += " for " + since
	}
	pid := ""
	if l.Container.PID != 0 {
		pid = strconv.Itoa(l.Container.PID)
	}
	return [][]string{
		{"Pod:", l.Pod.Namespace + "/" + l.Pod.Name},
		{"UID:", l.Pod.UID},
		{"Container:", l.Container.Name},
		{"ID:", l.Container.ID},
		{"PID:", pid},
		{"State:", state},
		{"Policy:", l.Mode + ", " + rule},
	}
}

func refusalTitle(l agentapi.Launcher) string {
	if l.State == agentapi.StateRefused {
		return "Refused"
	}
	return "Would be refused"
}

func settingRows(settings []agentapi.Setting) [][]string {
	rows := [][]string{{"SETTING", "ASKED", "ALLOWED", "GIVEN", "SEEN", "STATUS"}}
	for _, s := range settings {
		rows = append(rows, []string{
			s.Name, s.Requested, s.Allowed, s.Given, s.Observed, string(s.Status),
		})
	}
	return rows
}

// sum shows the terms of a computed amount.
func sum(w io.Writer, s agentapi.Setting) error {
	if len(s.Terms) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\n%s is the sum of:\n", printable(s.Name))
	rows := make([][]string, 0, len(s.Terms))
	for _, term := range s.Terms {
		rows = append(rows, []string{"  " + term.Name, api.Bytes(term.Bytes).String()})
	}
	return table(w, rows)
}

// section writes a titled paragraph. It skips an empty text.
func section(w io.Writer, title, text string) {
	if text != "" {
		fmt.Fprintf(w, "\n%s:\n%s\n", printable(title), indented(text))
	}
}
