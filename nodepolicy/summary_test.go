package nodepolicy

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

func newPolicy() *v1alpha1.NodePolicy {
	return &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Generation: 3}}
}

func reporting(name string, r v1alpha1.PolicyReport) v1alpha1.NodeState {
	n := v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Policy = &r
	return n
}

func TestSummarise(t *testing.T) {
	ok := v1alpha1.PolicyReport{Name: "gpu", Generation: 3, Applied: true}
	old := v1alpha1.PolicyReport{Name: "gpu", Generation: 2, Applied: true}
	bad := v1alpha1.PolicyReport{Name: "gpu", Generation: 3, Reason: "two policies"}
	earlier := v1alpha1.PolicyReport{Name: "gpu", UID: "earlier", Generation: 3, Applied: true}
	for name, c := range map[string]struct {
		nodes  []v1alpha1.NodeState
		counts string
		reason string
		text   string
	}{
		"no nodes": {[]v1alpha1.NodeState{{}, reporting("a", v1alpha1.PolicyReport{Name: "cpu"})},
			"0 0 0 0", ReasonNoNodes, "higher priority"},
		"all": {[]v1alpha1.NodeState{reporting("b", ok), reporting("a", ok)},
			"2 2 0 0", ReasonApplied, "all 2 nodes have applied generation 3"},
		"pending": {[]v1alpha1.NodeState{reporting("a", ok), reporting("b", old)},
			"2 1 0 1", ReasonPending, "1 of 2 nodes"},
		"made anew": {[]v1alpha1.NodeState{reporting("a", ok), reporting("b", earlier)},
			"2 1 0 1", ReasonPending, "1 of 2 nodes"},
		"failed": {[]v1alpha1.NodeState{reporting("a", ok), reporting("b", bad),
			reporting("c", old)}, "3 1 1 1", ReasonFailed, "b: two policies"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Summarise(newPolicy(), c.nodes)
			if got := fmt.Sprint(s.Nodes, s.Applied, s.Failed, s.Pending); got != c.counts {
				t.Errorf("counts %s, want %s", got, c.counts)
			}
			got := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionApplied)
			if got.Reason != c.reason || !strings.Contains(got.Message, c.text) ||
				(got.Status == metav1.ConditionTrue) != (c.reason == ReasonApplied) {
				t.Errorf("condition %+v, want %s: %s", got, c.reason, c.text)
			}
			if s.ObservedGeneration != 3 || got.ObservedGeneration != 3 {
				t.Errorf("generation %d, want 3", s.ObservedGeneration)
			}
		})
	}
}

// An invalid spec is reported also without nodes.
func TestSummariseInvalid(t *testing.T) {
	p := newPolicy()
	p.Spec.NodeSelector = &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Near"}}}
	c := meta.FindStatusCondition(Summarise(p, nil).Conditions, v1alpha1.ConditionApplied)
	if c.Reason != ReasonInvalid || !strings.Contains(c.Message, "spec.nodeSelector: ") {
		t.Errorf("condition %+v", c)
	}
}

// The lists are bounded, and the counts are not.
func TestSummariseIsBounded(t *testing.T) {
	var nodes []v1alpha1.NodeState
	for i := range 500 {
		nodes = append(nodes, reporting(fmt.Sprintf("n%03d", i), v1alpha1.PolicyReport{Name: "gpu",
			Generation: 3, Applied: i%2 == 0, Reason: strings.Repeat("x", 5000)}))
	}
	s := Summarise(newPolicy(), nodes)
	if s.Applied != 250 || s.Failed != 250 || len(s.AppliedNodes) != maxApplied ||
		len(s.Failures) != maxFailures || len(s.Failures[0].Reason) > maxReason {
		t.Errorf("%d applied (%d named), %d failed (%d named)", s.Applied, len(s.AppliedNodes),
			s.Failed, len(s.Failures))
	}
}
