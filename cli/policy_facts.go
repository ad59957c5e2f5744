package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/agent/policycheck"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/cli/explain"
	"github.com/mooring-vm/mooring/cli/policydiff"
	"github.com/mooring-vm/mooring/decide"
)

// policyFile is a policy with the selector of its nodes.
type policyFile struct {
	policy   *policy.Policy
	selector labels.Selector // nil: all nodes
}

// readPolicyFile reads a policy or NodePolicy from a file or from in.
func readPolicyFile(in io.Reader, name string) (policyFile, error) {
	var f policyFile
	at := "on standard input"
	if name != stdin {
		file, err := os.Open(name)
		if err != nil {
			return f, fmt.Errorf("read node policy: %w", err)
		}
		defer file.Close()
		in, at = file, name
	}
	text, err := io.ReadAll(io.LimitReader(in, policy.MaxSize+1))
	if err != nil {
		return f, fmt.Errorf("read node policy %s: %w", at, err)
	}
	if f.policy, err = policycheck.Read(at, bytes.NewReader(text)); err != nil {
		return f, err
	}
	var object v1alpha1.NodePolicy
	if err := yaml.Unmarshal(text, &object); err != nil || object.Spec.NodeSelector == nil {
		return f, nil // a policy file need not have the form of the object
	}
	f.selector, err = metav1.LabelSelectorAsSelector(object.Spec.NodeSelector)
	if err != nil {
		return f, fmt.Errorf("node policy %s: spec.nodeSelector: %w", at, err)
	}
	return f, nil
}

// readFacts reads launchers, and the facts for a new decision about each.
func (p *Program) readFacts(ctx context.Context, c *cluster, flags viewFlags,
	selector labels.Selector) ([]policydiff.Launcher, error) {
	defer p.reading(c, "the launchers")()
	// Other namespaces share the node's account.
	v, err := p.readView(ctx, c, "")
	if err != nil {
		return nil, err
	}
	p.writeNotes(v.notes)
	if flags.node != "" {
		if err := v.keepNode(flags.node); err != nil {
			return nil, err
		}
	}
	var all []policydiff.Launcher
	if c == nil {
		all = localFacts(v)
	} else if all, err = c.facts(ctx, v, selector, p.writeNotes); err != nil {
		return nil, err
	}
	return selectNamespace(all, flags.namespaceOf(c)), nil
}

// selectNamespace marks the launchers of other namespaces, which count only in the account.
func selectNamespace(all []policydiff.Launcher, namespace string) []policydiff.Launcher {
	for i := range all {
		all[i].OnlyAccount = namespace != "" && all[i].Pod.Namespace != namespace
	}
	return all
}

// localFacts returns the facts from this node's agent.
func localFacts(v *view) (all []policydiff.Launcher) {
	node := explain.ThisNode(os.DirFS("/"))
	for _, l := range v.launchers {
		found := policydiff.Launcher{Launcher: l.Launcher}
		if f, ok := decide.FactsOf(&l.Launcher); ok {
			f.NodeMemory, f.Controllers = node.Memory, node.Controllers
			f.Architecture = node.Architecture
			found.Facts = &f
		} else {
			found.Missing = "the agent is older than this command and does not report the facts"
		}
		all = append(all, found)
	}
	return all
}

// facts returns the facts from the pods and nodes of the cluster.
func (c *cluster) facts(ctx context.Context, v *view, selector labels.Selector,
	note func([]string)) ([]policydiff.Launcher, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	pods, err := c.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, clusterError(err, "list", "pods in all namespaces",
			"read the pods of the launchers")
	}
	byUID := map[string]*corev1.Pod{}
	for i := range pods.Items {
		byUID[string(pods.Items[i].UID)] = &pods.Items[i]
	}
	nodes, err := c.nodesByName(ctx)
	if err != nil {
		if selector != nil {
			return nil, err
		}
		note([]string{"a memory limit above the node's memory is not noticed: " + err.Error()})
	}
	var all []policydiff.Launcher
	for _, l := range v.launchers {
		node, ok := nodes[l.Node]
		if selector != nil && (!ok || !selector.Matches(labels.Set(node.Labels))) {
			continue
		}
		all = append(all, withPod(l, byUID[l.Pod.UID], &node))
	}
	return all, nil
}

func (c *cluster) nodesByName(ctx context.Context) (map[string]corev1.Node, error) {
	list, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, clusterError(err, "list", "nodes", "labels and memory of nodes are unknown")
	}
	nodes := map[string]corev1.Node{}
	for _, node := range list.Items {
		nodes[node.Name] = node
	}
	return nodes, nil
}

// withPod returns the facts about a reported launcher from its pod and node.
func withPod(l nodeLauncher, pod *corev1.Pod, node *corev1.Node) policydiff.Launcher {
	found := policydiff.Launcher{Launcher: l.Launcher, Node: l.Node}
	if pod == nil {
		found.Missing = "the cluster has no pod with the UID of the launcher"
		return found
	}
	facts, ok := explain.Facts(pod, l.Container.Name, explain.Node{
		Memory:       node.Status.Capacity.Memory().Value(),
		Architecture: node.Status.NodeInfo.Architecture,
	})
	if !ok {
		found.Missing = fmt.Sprintf("the pod has no container %q", l.Container.Name)
		return found
	}
	facts.Inherited = decide.Inherited(&l.Launcher)
	if l.Limits.Memory > 0 { // the one in force; a resize may be under way
		facts.MemoryLimit = l.Limits.Memory
	}
	found.Facts = &facts
	return found
}
