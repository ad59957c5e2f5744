package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/agent/doctor"
)

// doctorParallel is the number of nodes that are examined at the same time.
const doctorParallel = 10

// fleetReport is the output of `doctor --all-nodes -o json`: a stable contract.
type fleetReport struct {
	Nodes    []nodeFindings   `json:"nodes"`
	KubeVirt []doctor.Finding `json:"kubevirt,omitempty"` // absent without KubeVirt
	Problems int              `json:"problems"`           // of all nodes and KubeVirt
	NoAnswer int              `json:"noAnswer"`           // nodes without findings
}

// nodeFindings are the findings of a node, or the reason for their absence.
type nodeFindings struct {
	Node     string           `json:"node"`
	Error    string           `json:"error,omitempty"`
	Findings []doctor.Finding `json:"findings,omitempty"`
	Problems int              `json:"problems"`
}

// doctorNodes examines all nodes with an agent.
func (p *Program) doctorNodes(ctx context.Context, c *cluster, output format) error {
	r, err := p.examineNodes(ctx, c)
	if err != nil {
		return err
	}
	switch output {
	case formatJSON:
		err = writeJSON(p.Out, r)
	case formatYAML:
		err = writeYAML(p.Out, r)
	default:
		p.writeReport(r)
	}
	return errors.Join(err, r.problem())
}

// examineNodes runs the doctor in the pods of all agents.
func (p *Program) examineNodes(ctx context.Context, c *cluster) (*fleetReport, error) {
	f, pods, err := p.agentNodes(ctx, c)
	if err != nil {
		return nil, err
	}
	all := make([]nodeFindings, len(f))
	var done atomic.Int64
	end := p.progress(func() string {
		return fmt.Sprintf("examined %d of %d nodes", done.Load(), len(f))
	})
	var group errgroup.Group
	group.SetLimit(doctorParallel)
	for i, node := range f {
		group.Go(func() error {
			defer done.Add(1)
			all[i] = c.examineNode(ctx, node, pods[node])
			return nil
		})
	}
	kubevirt := c.examineKubeVirt(ctx, f)
	_ = group.Wait() // no function returns an error
	end()
	return newFleetReport(all, kubevirt), nil
}

func newFleetReport(all []nodeFindings, kubevirt []doctor.Finding) *fleetReport {
	r := &fleetReport{Nodes: all, KubeVirt: kubevirt, Problems: problemsIn(kubevirt)}
	for _, n := range all {
		r.Problems += n.Problems
		if n.Error != "" {
			r.NoAnswer++
		}
	}
	return r
}

// problemsIn counts the findings with status problem.
func problemsIn(findings []doctor.Finding) int {
	n := 0
	for _, f := range findings {
		if f.Status == doctor.Problem {
			n++
		}
	}
	return n
}

// agentNodes returns the names of the nodes with an agent, and the agent's pod of each. A node with
// an agent outside of Kubernetes has none.
func (p *Program) agentNodes(ctx context.Context, c *cluster) (
	nodes []string, pods map[string]*corev1.Pod, err error,
) {
	reader, err := p.fleetReader(c)
	if err != nil {
		return nil, nil, err
	}
	end := p.reading(c, "the nodes")
	f, err := reader.read(ctx)
	end()
	if err != nil {
		return nil, nil, err
	}
	p.writeNotes(f.notes)
	return f.agents(), f.pods, nil
}

// agents returns the names of the nodes with an agent.
func (f *fleet) agents() (nodes []string) {
	for _, n := range f.nodes {
		if n.answer != answerNoAgent {
			nodes = append(nodes, n.name)
		}
	}
	return nodes
}

// examineNode runs the doctor in the agent's pod of a node.
func (c *cluster) examineNode(ctx context.Context, node string, pod *corev1.Pod) nodeFindings {
	n := nodeFindings{Node: node}
	switch {
	case pod == nil:
		n.Error = "no pod of the agent: run `mooring doctor` on the node"
		return n
	case pod.Status.Phase != corev1.PodRunning:
		n.Error = fmt.Sprintf("the agent's pod %s/%s is %s", pod.Namespace, pod.Name,
			cmp.Or(pod.Status.Phase, "Unknown"))
		return n
	}
	out, err := c.execInAgent(ctx, pod, "/usr/local/bin/mooring", "doctor", "-o", "json")
	if err != nil {
		n.Error = err.Error()
		return n
	}
	var r doctor.Report
	if err := json.Unmarshal(out, &r); err != nil {
		n.Error = fmt.Sprintf("unreadable answer of the doctor: %v", err)
		return n
	}
	n.Findings, n.Problems = r.Findings, r.Problems
	return n
}

// problem returns nil if all nodes answer without a problem.
func (r *fleetReport) problem() error {
	switch {
	case len(r.Nodes) == 0:
		return &unhealthyError{"no node has an agent"}
	case r.Problems > 0 || r.NoAnswer > 0:
		return &unhealthyError{fmt.Sprintf(
			"doctor: problems found: %d; nodes without an answer: %d of %d", r.Problems, r.NoAnswer,
			len(r.Nodes))}
	}
	return nil
}

// writeReport writes the nodes with the worst ones last, where a terminal shows them, and after
// them KubeVirt, which concerns all nodes.
func (p *Program) writeReport(r *fleetReport) {
	nodes := slices.Clone(r.Nodes)
	slices.SortStableFunc(nodes, func(a, b nodeFindings) int {
		return cmp.Or(cmp.Compare(min(len(a.Error), 1), min(len(b.Error), 1)),
			cmp.Compare(a.Problems, b.Problems))
	})
	for _, n := range nodes {
		if n.Error != "" {
			fmt.Fprintf(p.Out, "%s: no answer: %s\n", oneLine(n.Node), oneLine(n.Error))
			continue
		}
		p.writeNotOK(n.Node, n.Problems, n.Findings)
	}
	if len(r.KubeVirt) > 0 {
		p.writeNotOK("KubeVirt", problemsIn(r.KubeVirt), r.KubeVirt)
	}
}

// writeNotOK writes the number of problems, and the findings that are not ok.
func (p *Program) writeNotOK(of string, problems int, findings []doctor.Finding) {
	fmt.Fprintf(p.Out, "%s: problems found: %d\n", oneLine(of), problems)
	writeFindings(p.Out, slices.DeleteFunc(slices.Clone(findings),
		func(f doctor.Finding) bool { return f.Status == doctor.OK }))
}
