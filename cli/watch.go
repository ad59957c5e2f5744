package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/api/agentapi"
)

func (p *Program) watchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch [POD]",
		Short: "Show events of launchers as they happen",
		Long: "Shows the agent's latest events, and then new ones until interrupted. POD, as\n" +
			"for inspect, limits them to one pod. A pid is that of a VM process, or of the\n" +
			"container's first process. With -o json each line is a JSON object.",
		Args: between(0, 1, "at most one: POD"),
	}
	output := formatFlag(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.watch(cmd.Context(), *output, strings.Join(args, ""))
	}
	return cmd
}

func (p *Program) watch(ctx context.Context, output format, pod string) error {
	for event, err := range p.client().Events(ctx) {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case !isAbout(event, pod):
			continue
		}
		if err := p.printEvent(event, output); err != nil {
			return err
		}
	}
	return nil
}

func isAbout(event agentapi.Event, pod string) bool {
	switch pod {
	case "", event.Pod.UID, event.Pod.Name, event.Pod.Namespace + "/" + event.Pod.Name:
		return true
	}
	return false
}

func (p *Program) printEvent(event agentapi.Event, output format) error {
	if output == formatJSON {
		if err := json.NewEncoder(p.Out).Encode(event); err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		return nil
	}
	_, err := fmt.Fprintf(p.Out, "%s  %-7s  %-17s  %s  %s\n",
		event.Time.Local().Format(time.DateTime),
		printable(string(event.Type)), printable(string(event.Reason)), subject(event),
		oneLine(event.Message))
	if err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	return nil
}

func subject(event agentapi.Event) string {
	if event.Pod.Name == "" {
		return "-"
	}
	subject := event.Pod.Namespace + "/" + event.Pod.Name
	if event.Container.Name != "" {
		subject += "/" + event.Container.Name
	}
	if event.Container.PID != 0 {
		subject += " pid " + strconv.Itoa(event.Container.PID)
	}
	return printable(subject)
}
