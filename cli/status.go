package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/api/agentapi"
)

const (
	// statusTimeout is the default for --timeout.
	statusTimeout = 5 * time.Minute
	statusPoll    = 2 * time.Second
)

// statusJSON is the output of `status -o json`: a stable contract. Its lists are never null.
type statusJSON struct {
	// every node with an agent is ready, and every component
	Healthy    bool            `json:"healthy"`
	Nodes      []nodeJSON      `json:"nodes"`
	Components []componentJSON `json:"components"` // empty without a cluster
	Refusals   []refusalJSON   `json:"refusals"`
	Notes      []string        `json:"notes"` // unread parts, with reasons

	read time.Time // by the clock of the API server, for the age of heartbeats
}

// nodeJSON is a node with an agent. Without an answer, the figures come from the last answer.
type nodeJSON struct {
	Node        string     `json:"node,omitempty"`
	Status      string     `json:"status"` // Ready, NotReady, NoAnswer or NoAgent
	Reason      string     `json:"reason,omitempty"`
	Mode        string     `json:"mode,omitempty"`
	Version     string     `json:"version,omitempty"`
	Runtime     string     `json:"runtime,omitempty"`
	Launchers   int        `json:"launchers"`
	VMs         int        `json:"vms"`
	Refused     int        `json:"refused"`
	WouldRefuse int        `json:"wouldRefuse"`
	Heartbeat   *time.Time `json:"heartbeat,omitempty"` // absent: asked directly, or no answer ever
}

// refusalJSON is a launcher that an agent refuses, or would refuse in mode enforce.
type refusalJSON struct {
	Node    string          `json:"node,omitempty"`
	Pod     agentapi.PodRef `json:"pod"`
	Refused bool            `json:"refused"` // false: mode enforce would refuse it
	Reason  string          `json:"reason"`
}

// unhealthyError reports nodes and components that are not ready.
type unhealthyError struct{ message string }

func (e *unhealthyError) Error() string { return e.message }

func (p *Program) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show whether Mooring is installed and healthy, and its refusals",
		Long: "Shows each node with an agent: whether it is ready, its policy mode, version\n" +
			"and launchers. NoAnswer is a node whose agent wrote no state in the last three\n" +
			"minutes, although it is to run there. NoAgent is a node that had a pod of the\n" +
			"agent, and has none now: it does not count. Then shows the ready pods of each\n" +
			"DaemonSet and Deployment of Mooring: agent, fence and controller, which serves\n" +
			"the webhooks. Then shows each refused launcher with the reason. Without a\n" +
			"cluster it shows this node.\n\n" +
			"Exit code 1: a node or a component is not ready, a node does not answer, or no\n" +
			"node has an agent. --wait waits until all are ready. In a cluster it requires\n" +
			"the role mooring-view, and the verb \"list\" for pods, daemonsets and\n" +
			"deployments. -o wide adds the image of each component.",
		Args: between(0, 0, "none"),
	}
	var flags viewFlags
	var output outputFlags
	var wait bool
	var timeout time.Duration
	output.add(cmd, formatTable, formatWide)
	flags.addCluster(cmd)
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until every node and component is ready")
	cmd.Flags().DurationVar(&timeout, "timeout", statusTimeout, "maximum wait")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := p.viewCluster(cmd, flags)
		if err != nil {
			return err
		}
		if !wait {
			return p.status(cmd.Context(), c, &output)
		}
		if timeout <= 0 {
			return usage("--timeout %s: want more than 0", timeout)
		}
		return p.awaitHealth(cmd.Context(), c, &output, timeout)
	}
	return cmd
}

func (p *Program) status(ctx context.Context, c *cluster, output *outputFlags) error {
	s, err := p.readStatusPatiently(ctx, c)
	if err != nil {
		return err
	}
	return p.writeStatus(s, output)
}

// awaitHealth reads until all nodes and components are ready, and reports each change of the reason to wait.
func (p *Program) awaitHealth(ctx context.Context, c *cluster, output *outputFlags,
	timeout time.Duration) error {
	deadline, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(statusPoll)
	defer ticker.Stop()
	reported := ""
	for {
		s, err := p.readStatusPatiently(deadline, c)
		if err == nil && s.Healthy {
			return p.writeStatus(s, output)
		}
		if err == nil {
			err = s.problem()
		} else if permanent(err) {
			return err
		}
		if text := "waiting: " + oneLine(err.Error()); text != reported && deadline.Err() == nil {
			fmt.Fprintln(p.ErrOut, text)
			reported = text
		}
		select {
		case <-deadline.Done():
			return &unhealthyError{fmt.Sprintf("waited for %s: %v", timeout, err)}
		case <-ticker.C:
		}
	}
}

// permanent reports whether waiting cannot help.
func permanent(err error) bool {
	_, denied := errors.AsType[*admin.PermissionError](err)
	return denied || isForbidden(err)
}

// readStatusPatiently is readStatus with progress.
func (p *Program) readStatusPatiently(ctx context.Context, c *cluster) (*statusJSON, error) {
	defer p.reading(c, "the status")()
	return p.readStatus(ctx, c)
}

func (p *Program) readStatus(ctx context.Context, c *cluster) (*statusJSON, error) {
	if c == nil {
		return p.readNodeStatus(ctx)
	}
	reader, err := p.fleetReader(c)
	if err != nil {
		return nil, err
	}
	f, err := reader.read(ctx)
	if err != nil {
		return nil, err
	}
	v := f.view("")
	s := newStatus(v.launchers)
	s.read = f.read
	for _, n := range f.nodes {
		s.Nodes = append(s.Nodes, nodeOfFleet(n))
	}
	silences := f.silences() // the nodes have these reasons
	for _, note := range v.notes {
		if !slices.Contains(silences, note) {
			s.Notes = append(s.Notes, note)
		}
	}
	if err := c.addComponents(ctx, s); err != nil {
		return nil, err
	}
	s.Healthy = s.problem() == nil
	return s, nil
}

// readNodeStatus asks the node's agent.
func (p *Program) readNodeStatus(ctx context.Context) (*statusJSON, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	node, err := p.client().Node(ctx)
	if err != nil {
		return nil, err
	}
	v, err := p.readAgent(ctx, "")
	if err != nil {
		return nil, err
	}
	s := newStatus(v.launchers)
	n := nodeJSON{Status: answerReady, Mode: node.Mode, Version: node.Version,
		Runtime: runtimeText(node.Runtime)}
	if node.NRI.State != agentapi.NRISynchronized {
		n.Status, n.Reason = answerNotReady, withReason(string(node.NRI.State), node.NRI.Error)
	}
	for _, l := range v.launchers {
		n.count(l)
	}
	s.Nodes = append(s.Nodes, n)
	s.Healthy = s.problem() == nil
	return s, nil
}

func (n *nodeJSON) count(l nodeLauncher) {
	switch {
	case l.State == agentapi.StateRefused:
		n.Refused++
		return
	case l.Refusal != "":
		n.WouldRefuse++
	}
	n.Launchers++
	n.VMs += len(l.VMs)
}

func nodeOfFleet(n fleetNode) nodeJSON {
	j := nodeJSON{Node: n.name, Status: n.answer, Reason: n.reason}
	if n.state == nil {
		return j
	}
	s := &n.state.Status
	j.Mode, j.Version = s.Node.Mode, s.Node.Version
	j.Runtime = strings.TrimSpace(s.Node.Runtime.Name + " " + s.Node.Runtime.Version)
	j.Launchers, j.VMs = s.Totals.Launchers, s.Totals.VMs
	j.Refused, j.WouldRefuse = s.Totals.Refused, s.Totals.WouldRefuse
	if !s.HeartbeatTime.IsZero() {
		j.Heartbeat = &s.HeartbeatTime.Time
	}
	return j
}

// newStatus returns a status with the refusals of launchers, without nodes and components.
func newStatus(launchers []nodeLauncher) *statusJSON {
	s := &statusJSON{Nodes: []nodeJSON{}, Components: []componentJSON{},
		Refusals: []refusalJSON{}, Notes: []string{}}
	for _, l := range launchers {
		if l.Refusal != "" || l.State == agentapi.StateRefused {
			s.Refusals = append(s.Refusals, refusalJSON{l.Node, l.Pod,
				l.State == agentapi.StateRefused, l.Refusal})
		}
	}
	return s
}

// problem returns nil for a healthy status.
func (s *statusJSON) problem() error {
	var problems []string
	switch ready, all := s.countNodes(); {
	case all == 0:
		problems = append(problems, "no node has an agent")
	case ready < all:
		problems = append(problems, fmt.Sprintf("%d of %d nodes are ready", ready, all))
	}
	for _, c := range s.Components {
		if c.Reason != "" {
			problems = append(problems, c.Kind+" "+c.Name+": "+c.Reason)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &unhealthyError{strings.Join(problems, "; ")}
}

// countNodes counts the ready nodes, and all nodes with an agent.
func (s *statusJSON) countNodes() (ready, all int) {
	for _, n := range s.Nodes {
		switch n.Status {
		case answerReady:
			ready++
			all++
		case answerNone, answerNotReady:
			all++
		}
	}
	return ready, all
}

func (p *Program) writeStatus(s *statusJSON, output *outputFlags) error {
	if output.isData() {
		return errors.Join(output.writeData(p.Out, s, s.names()), s.problem())
	}
	p.writeNotes(s.Notes)
	if len(s.Nodes) > 0 {
		if err := output.writeTable(p.Out, statusRows(s)); err != nil {
			return err
		}
	}
	for _, n := range s.Nodes {
		if n.Reason != "" {
			fmt.Fprintf(p.Out, "\n%s: %s\n", cmp.Or(oneLine(n.Node), "this node"), oneLine(n.Reason))
		}
	}
	if err := p.writeComponents(s.Components, output); err != nil {
		return err
	}
	p.writeRefusals(s.Refusals)
	return s.problem()
}

// names returns the objects of the status in the form of -o name.
func (s *statusJSON) names() []string {
	var all []string
	for _, n := range s.Nodes {
		all = append(all, "nodestate.mooring.dev/"+n.Node)
	}
	for _, c := range s.Components {
		all = append(all, strings.ToLower(c.Kind)+".apps/"+c.Name)
	}
	return all
}

func statusRows(s *statusJSON) [][]string {
	rows := [][]string{{"NODE", "STATUS", "MODE", "VERSION", "RUNTIME", "LAUNCHERS", "VMS",
		"REFUSED", "WOULD-REFUSE", "HEARTBEAT"}}
	for _, n := range s.Nodes {
		heartbeat := ""
		if n.Heartbeat != nil {
			heartbeat = age(*n.Heartbeat, s.read)
		}
		rows = append(rows, []string{cmp.Or(n.Node, "this node"), n.Status, n.Mode, n.Version,
			n.Runtime, strconv.Itoa(n.Launchers), strconv.Itoa(n.VMs), strconv.Itoa(n.Refused),
			strconv.Itoa(n.WouldRefuse), heartbeat})
	}
	return rows
}

func (p *Program) writeRefusals(all []refusalJSON) {
	for _, r := range all {
		word := "refused"
		if !r.Refused {
			word = "would be refused"
		}
		fmt.Fprintf(p.Out, "\n%s %s: %s\n", printable(r.Pod.Namespace+"/"+r.Pod.Name), word,
			oneLine(r.Reason))
	}
}

func runtimeText(r agentapi.Runtime) string { return strings.TrimSpace(r.Name + " " + r.Version) }
