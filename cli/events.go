package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

func (p *Program) eventsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events [POD]",
		Short: "Show the latest events of launchers, nodes and quotas",
		Long: "Shows the events of Mooring. POD, as for inspect, limits them to one pod.\n" +
			"With -w it shows new events until interrupted. With -o json each line is a\n" +
			"JSON object, and with -o yaml each event a document.\n\n" +
			"On a node the events are the agent's. In a cluster they are Mooring's Events of\n" +
			"the namespace: agents, controller and webhooks write them, and the cluster\n" +
			"deletes them after an hour. It requires the verbs \"list\" and \"watch\" for events.",
		Args: between(0, 1, "at most one: POD"),
	}
	var flags viewFlags
	p.addViewFlags(cmd, &flags)
	output := formatFlag(cmd, eventFormats()...)
	var follow bool
	cmd.Flags().BoolVarP(&follow, "watch", "w", false, "show new events, too")
	cmd.ValidArgsFunction = p.completePods(&flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.events(cmd, flags, *output, strings.Join(args, ""), follow)
	}
	return cmd
}

// events shows the events of a cluster, or without one of the node's agent.
func (p *Program) events(cmd *cobra.Command, flags viewFlags, output format, pod string,
	follow bool) error {
	c, err := p.viewCluster(cmd, flags)
	if err != nil {
		return err
	}
	if c == nil {
		return p.watchAgent(cmd.Context(), output, eventFilter{pod, flags.namespaceOf(nil)}, follow)
	}
	namespace := flags.namespaceOf(c)
	if in, _, full := strings.Cut(pod, "/"); full {
		namespace = in
	}
	return p.clusterEvents(cmd.Context(), c, output, eventFilter{pod, namespace}, follow)
}

func (p *Program) clusterEvents(ctx context.Context, c *cluster, output format, show eventFilter,
	follow bool) error {
	f := &eventFollower{Program: p, cluster: c, output: output, show: show}
	version, err := f.list(ctx)
	switch {
	case err != nil:
		return err
	case follow:
		return f.follow(ctx, version)
	case len(f.shown) == 0:
		fmt.Fprintln(p.ErrOut, "no events of Mooring in the cluster or the namespace")
	}
	return nil
}

// eventFollower prints Mooring's Events of a cluster, each version of an Event once.
type eventFollower struct {
	*Program
	cluster *cluster
	output  format
	show    eventFilter
	shown   map[types.UID]string // resourceVersion of each printed Event that exists
}

// list prints the new Events, the oldest first. It returns the version at which a watch continues.
func (f *eventFollower) list(ctx context.Context) (version string, err error) {
	list, err := f.cluster.listEvents(ctx, f.show.namespace)
	if err != nil {
		return "", err
	}
	slices.SortStableFunc(list.Items, func(a, b eventsv1.Event) int {
		return cmp.Or(lastTime(&a).Compare(lastTime(&b)), cmp.Compare(a.Name, b.Name))
	})
	before := f.shown
	f.shown = map[types.UID]string{} // without Events that the cluster has deleted
	for i := range list.Items {
		e := &list.Items[i]
		if version, ok := before[e.UID]; ok {
			f.shown[e.UID] = version
		}
		if err := f.print(e); err != nil {
			return "", err
		}
	}
	return list.ResourceVersion, nil
}

// follow prints new Events until ctx ends. It lists again after the end of a watch and after
// failures. It returns a permanent error.
func (f *eventFollower) follow(ctx context.Context, version string) error {
	var o outage
	err := f.watch(ctx, &o, version)
	for ctx.Err() == nil {
		if err := f.retry(ctx, &o, err); err != nil {
			return unlessDone(ctx, err)
		}
		if version, err = f.list(ctx); err == nil {
			err = f.watch(ctx, &o, version)
		}
	}
	return nil
}

// watch prints new Events until the watch ends.
func (f *eventFollower) watch(ctx context.Context, o *outage, version string) error {
	w, err := f.cluster.EventsV1().Events(f.show.namespace).Watch(ctx,
		metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return clusterError(err, "watch", "events", "follow the Events")
	}
	defer w.Stop()
	o.end()
	for change := range w.ResultChan() {
		event, ok := change.Object.(*eventsv1.Event)
		switch {
		case !ok:
			continue
		case change.Type == watch.Deleted:
			delete(f.shown, event.UID)
			continue
		}
		if err := f.print(event); err != nil {
			return err
		}
	}
	return nil
}

// print prints an Event of Mooring, unless it has printed this version.
func (f *eventFollower) print(e *eventsv1.Event) error {
	event := agentEvent(e)
	version, before := f.shown[e.UID]
	if before && version == e.ResourceVersion || isCopy(e) ||
		!agentapi.IsReporter(e.ReportingController) || !isAbout(event, f.show.pod) {
		return nil
	}
	f.shown[e.UID] = e.ResourceVersion
	if err := f.printEvent(event, f.output); err != nil {
		return &outputError{err}
	}
	return nil
}

// isCopy reports whether an Event repeats an Event of the agent on a pod. The agent also writes
// warnings on the VirtualMachineInstance.
func isCopy(e *eventsv1.Event) bool {
	return e.ReportingController == agentapi.AgentReporter && e.Related != nil
}

func (c *cluster) listEvents(ctx context.Context, namespace string) (*eventsv1.EventList, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	list, err := c.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
	return list, clusterError(err, "list", "events", "read the Events")
}

// agentEvent returns an Event in the form of the agent's socket. Events about other objects than
// pods have the object in the message.
func agentEvent(e *eventsv1.Event) agentapi.Event {
	event := agentapi.Event{
		Time: lastTime(e), Type: agentapi.EventType(e.Type), Reason: agentapi.Reason(e.Reason),
		Message: e.Note,
		Pod: agentapi.PodRef{Namespace: e.Regarding.Namespace, Name: e.Regarding.Name,
			UID: string(e.Regarding.UID)},
	}
	if e.Regarding.Kind != "Pod" {
		event.Pod = agentapi.PodRef{}
		event.Message = fmt.Sprintf("%s %s: %s", e.Regarding.Kind, e.Regarding.Name, e.Note)
	}
	event.Container.Name = containerOf(e.Regarding)
	event.Desired = annotated[agentapi.DesiredSize](e, agentapi.DesiredKey)
	event.Report = annotated[podapi.Report](e, agentapi.ReportKey)
	return event
}

// containerOf returns the container in spec.containers{NAME}.
func containerOf(ref corev1.ObjectReference) string {
	name, ok := strings.CutPrefix(ref.FieldPath, "spec.containers{")
	if !ok {
		return ""
	}
	return strings.TrimSuffix(name, "}")
}

// annotated returns the value of an annotation with JSON; nil: none, or unreadable.
func annotated[T any](e *eventsv1.Event, key string) *T {
	var value T
	if json.Unmarshal([]byte(e.Annotations[key]), &value) != nil {
		return nil
	}
	return &value
}

// lastTime returns when the Event happened last.
func lastTime(e *eventsv1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}
