package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/api/agentapi"
)

func (p *Program) watchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch [POD]",
		Short: "Show events of launchers as they happen",
		Long: "Shows the latest events, and then new ones until interrupted. POD, as\n" +
			"for inspect, limits them to one pod. A pid is that of a VM process, or of the\n" +
			"container's first process. With -o json each line is a JSON object,\n" +
			"and with -o yaml each event a document.\n\n" +
			"On a node the events are the agent's. In a cluster they are Mooring's Events,\n" +
			"as with `events -w`.",
		Args: between(0, 1, "at most one: POD"),
	}
	var flags viewFlags
	p.addViewFlags(cmd, &flags)
	output := formatFlag(cmd, eventFormats()...)
	cmd.ValidArgsFunction = p.completePods(&flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.events(cmd, flags, *output, strings.Join(args, ""), true)
	}
	return cmd
}

// eventFormats are the formats of commands that show events.
func eventFormats() []format {
	return []format{formatText, formatJSON, formatYAML, formatJSONPath, formatJSONPathAsJSON,
		formatJSONPathFile}
}

// watchAgent shows the events of the node's agent; without follow only the present ones.
func (p *Program) watchAgent(ctx context.Context, output format, show eventFilter,
	follow bool) error {
	stream := p.client().LatestEvents
	if follow {
		stream = p.client().Events
	}
	for event, err := range stream(ctx) {
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, admin.ErrStreamEnded) && !follow:
			return nil
		case err != nil:
			return err
		case !show.has(event):
			continue
		}
		if err := p.printEvent(event, output); err != nil {
			return err
		}
	}
	return nil
}

// eventFilter selects events by pod and namespace; empty means all.
type eventFilter struct{ pod, namespace string }

func (f eventFilter) has(event agentapi.Event) bool {
	return isAbout(event, f.pod) && (f.namespace == "" || event.Pod.Namespace == f.namespace)
}

func isAbout(event agentapi.Event, pod string) bool {
	switch pod {
	case "", event.Pod.UID, event.Pod.Name, event.Pod.Namespace + "/" + event.Pod.Name:
		return true
	}
	return false
}

func (p *Program) printEvent(event agentapi.Event, output format) error {
	switch output {
	case formatText:
	case formatJSON: // on one line
		if err := json.NewEncoder(p.Out).Encode(event); err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		return nil
	case formatYAML:
		fmt.Fprintln(p.Out, "---")
		return writeYAML(p.Out, event)
	default:
		return writeJSONPath(p.Out, event, output)
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
