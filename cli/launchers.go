package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// nodeLauncher is a launcher with the name of its node. The node's own agent gives none.
type nodeLauncher struct {
	Node string `json:"node,omitempty"`
	agentapi.Launcher
}

// view has the launchers that a command shows.
type view struct {
	launchers []nodeLauncher
	inCluster bool
	nodes     []string // with an agent
	notes     []string // nodes without an answer, and unread parts
}

// readView reads the launchers of a cluster, or without one from the node's agent. namespace is
// empty for all.
func (p *Program) readView(ctx context.Context, c *cluster, namespace string) (*view, error) {
	if c == nil {
		return p.readAgent(ctx, namespace)
	}
	reader, err := p.fleetReader(c)
	if err != nil {
		return nil, err
	}
	f, err := reader.read(ctx)
	if err != nil {
		return nil, err
	}
	return f.view(namespace), nil
}

func (p *Program) readAgent(ctx context.Context, namespace string) (*view, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	launchers, err := p.client().Launchers(ctx)
	if err != nil {
		return nil, err
	}
	v := &view{launchers: []nodeLauncher{}}
	for _, l := range launchers {
		if namespace == "" || l.Pod.Namespace == namespace {
			v.launchers = append(v.launchers, nodeLauncher{Launcher: l})
		}
	}
	return v, nil
}

// view returns the launchers of a namespace, or of all for an empty one.
func (f *fleet) view(namespace string) *view {
	v := &view{launchers: []nodeLauncher{}, inCluster: true, notes: f.gaps()}
	for _, n := range f.nodes {
		v.nodes = append(v.nodes, n.name)
		launchers, err := n.launchers(namespace)
		if err != nil { // one node's faulty state must not hide the others
			v.notes = append(v.notes, err.Error())
			continue
		}
		v.launchers = append(v.launchers, launchers...)
	}
	slices.SortStableFunc(v.launchers, func(a, b nodeLauncher) int {
		return cmp.Or(cmp.Compare(a.Pod.Namespace, b.Pod.Namespace),
			cmp.Compare(a.Pod.Name, b.Pod.Name), a.Since.Compare(b.Since))
	})
	return v
}

// gaps describes the launchers that the fleet lacks.
func (f *fleet) gaps() []string {
	notes := slices.Concat(f.notes, f.silences())
	for _, n := range f.nodes {
		if n.state != nil && n.state.Status.OmittedLaunchers > 0 {
			notes = append(notes, fmt.Sprintf("node %s has %d more launchers than its state lists",
				n.name, n.state.Status.OmittedLaunchers))
		}
	}
	return notes
}

// silences describes the nodes without an answer.
func (f *fleet) silences() []string {
	var notes []string
	for _, n := range f.nodes {
		if n.answer == answerNone ||
			n.answer == answerNoAgent && len(n.state.Status.Launchers) > 0 {
			notes = append(notes, fmt.Sprintf("no answer from node %s: %s", n.name, n.reason))
		}
	}
	return notes
}

func (n fleetNode) launchers(namespace string) ([]nodeLauncher, error) {
	if n.state == nil {
		return nil, nil
	}
	var all []nodeLauncher
	for _, report := range n.state.Status.Launchers {
		if namespace != "" && report.Pod.Namespace != namespace {
			continue
		}
		l, err := report.Launcher()
		if err != nil {
			return nil, fmt.Errorf("unreadable state of node %s: %w", n.name, err)
		}
		all = append(all, nodeLauncher{n.name, l})
	}
	return all, nil
}

// find returns the launchers of a pod, given as NAMESPACE/NAME, NAME or UID.
func (v *view) find(pod string) ([]nodeLauncher, error) {
	is := func(l nodeLauncher) bool { return l.Pod.UID == pod }
	namespace, name, full := strings.Cut(pod, "/")
	switch {
	case full && (namespace == "" || name == "" || strings.Contains(name, "/")):
		return nil, usage("pod %q: want NAMESPACE/NAME, NAME or UID", pod)
	case full:
		is = func(l nodeLauncher) bool {
			return l.Pod.Namespace == namespace && l.Pod.Name == name
		}
	case !slices.ContainsFunc(v.launchers, is):
		is = func(l nodeLauncher) bool { return l.Pod.Name == pod }
	}
	found := slices.DeleteFunc(slices.Clone(v.launchers),
		func(l nodeLauncher) bool { return !is(l) })
	if len(found) == 0 {
		message := fmt.Sprintf("no pod %q with a launcher in this cluster", pod)
		return nil, &admin.NotFoundError{Message: strings.Join(append([]string{message},
			v.notes...), "; ")}
	}
	return found, unambiguous(pod, plain(found))
}

// plain returns the launchers without their nodes.
func plain(all []nodeLauncher) []agentapi.Launcher {
	launchers := make([]agentapi.Launcher, 0, len(all))
	for _, l := range all {
		launchers = append(launchers, l.Launcher)
	}
	return launchers
}

// names returns the pods of launchers in the form of -o name: one for each namespace and name.
func names(all []nodeLauncher) []string {
	var pods []string
	last := agentapi.PodRef{}
	for _, l := range all {
		if l.Pod.Namespace != last.Namespace || l.Pod.Name != last.Name {
			pods = append(pods, "pod/"+l.Pod.Name)
		}
		last = l.Pod
	}
	return pods
}

// writeNotes writes notes to the error output: the table lacks launchers.
func (p *Program) writeNotes(notes []string) {
	for _, note := range notes {
		fmt.Fprintln(p.ErrOut, oneLine(note))
	}
}

// keepNode keeps the launchers of one node.
func (v *view) keepNode(node string) error {
	if !slices.Contains(v.nodes, node) {
		return &admin.NotFoundError{Message: fmt.Sprintf("no node %q with an agent %s", node,
			v.where())}
	}
	v.launchers = slices.DeleteFunc(v.launchers,
		func(l nodeLauncher) bool { return l.Node != node })
	return nil
}

// where names the place of the view.
func (v *view) where() string {
	if v.inCluster {
		return "in the cluster or the namespace"
	}
	return "on this node"
}
