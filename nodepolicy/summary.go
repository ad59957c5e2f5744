package nodepolicy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/internal/plaintext"
)

const (
	maxApplied  = 50   // names in status.appliedNodes
	maxFailures = 20   // elements of status.failures
	maxReason   = 1024 // bytes of a reason
)

// Reasons of the condition [v1alpha1.ConditionApplied].
const (
	ReasonInvalid = "Invalid"      // the spec is invalid: no node applies it
	ReasonNoNodes = "NoNodes"      // no node reports the policy as its own
	ReasonFailed  = "NodesFailed"  // some nodes did not apply it
	ReasonPending = "NodesPending" // some nodes have not reported the present generation
	ReasonApplied = "AllApplied"
)

// Summarise returns the status of a policy from the reports of all nodes at a time. It does not
// count nodes that are silent. Conditions keep the time of their last change.
func Summarise(
	p *v1alpha1.NodePolicy, nodes []v1alpha1.NodeState, now time.Time,
) v1alpha1.NodePolicyStatus {
	s := v1alpha1.NodePolicyStatus{ObservedGeneration: p.Generation,
		Conditions: slices.Clone(p.Status.Conditions)}
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(a, b v1alpha1.NodeState) int { return strings.Compare(a.Name, b.Name) })
	silent := 0
	for _, n := range nodes {
		switch r := n.Status.Policy; {
		case r == nil || r.Name != p.Name:
		case n.Silent(now):
			silent++
		default:
			count(&s, n.Name, *r, r.UID == p.UID)
		}
	}
	c := condition(p, s)
	if silent > 0 {
		c.Message = plaintext.Cut(c.Message, maxReason) + fmt.Sprintf("; not counted: %d nodes "+
			"without a report for more than %s", silent, v1alpha1.NodeStateMaxAge)
	}
	c.ObservedGeneration = p.Generation
	meta.SetStatusCondition(&s.Conditions, c)
	return s
}

// count adds the report of a node. same is false for a report about an earlier policy of this name.
func count(s *v1alpha1.NodePolicyStatus, node string, r v1alpha1.PolicyReport, same bool) {
	s.Nodes++
	switch {
	case !same || r.Generation != s.ObservedGeneration:
		s.Pending++
	case r.Applied:
		s.Applied++
		if len(s.AppliedNodes) < maxApplied {
			s.AppliedNodes = append(s.AppliedNodes, node)
		}
	default:
		s.Failed++
		if len(s.Failures) < maxFailures {
			s.Failures = append(s.Failures, v1alpha1.NodePolicyFailure{Node: node,
				Reason: plaintext.Cut(r.Reason, maxReason)})
		}
	}
}

func condition(p *v1alpha1.NodePolicy, s v1alpha1.NodePolicyStatus) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionApplied, Status: metav1.ConditionFalse}
	switch err := Check(p); {
	case err != nil:
		c.Reason, c.Message = ReasonInvalid, plaintext.Cut(plaintext.OneLine(err.Error()), maxReason)
	case s.Failed > 0:
		c.Reason = ReasonFailed
		c.Message = fmt.Sprintf("%d of %d nodes did not apply it; %s: %s", s.Failed, s.Nodes,
			s.Failures[0].Node, s.Failures[0].Reason)
	case s.Pending > 0:
		c.Reason = ReasonPending
		c.Message = fmt.Sprintf("%d of %d nodes have not reported generation %d", s.Pending,
			s.Nodes, p.Generation)
	case s.Nodes == 0:
		c.Reason = ReasonNoNodes
		c.Message = "no node has chosen it: no agent with matching labels, or another policy has " +
			"a higher priority there"
	default:
		c.Status, c.Reason = metav1.ConditionTrue, ReasonApplied
		c.Message = fmt.Sprintf("all %d nodes have applied generation %d", s.Nodes, p.Generation)
	}
	return c
}

// Check returns the faults of a policy, as the agents find them.
func Check(p *v1alpha1.NodePolicy) error {
	text, err := json.Marshal(&v1alpha1.NodePolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: policy.APIVersion, Kind: policy.Kind}, Spec: p.Spec})
	if err != nil {
		return err
	}
	_, err = policy.Parse(text)
	return err
}
