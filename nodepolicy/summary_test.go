package nodepolicy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// silent is a node whose agent wrote its last report long ago.
func silent(name string, r v1alpha1.PolicyReport) v1alpha1.NodeState {
	n := reporting(name, r)
	n.Status.HeartbeatTime = metav1.NewTime(now.Add(-v1alpha1.NodeStateMaxAge - time.Second))
	return n
}

func newPolicy() *v1alpha1.NodePolicy {
	return &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Generation: 3}}
}

func reporting(name string, r v1alpha1.PolicyReport) v1alpha1.NodeState {
	n := v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Policy = &r
	n.Status.HeartbeatTime = metav1.NewTime(now)
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
		"silent": {[]v1alpha1.NodeState{reporting("a", ok), silent("b", ok), silent("c", bad)},
			"1 1 0 0", ReasonApplied, "not counted: 2 nodes without a report for more than 3m0s"},
		"all silent": {[]v1alpha1.NodeState{silent("b", ok)},
			"0 0 0 0", ReasonNoNodes, "not counted: 1 nodes"},
		"failed": {[]v1alpha1.NodeState{reporting("a", ok), reporting("b", bad),
			reporting("c", old)}, "3 1 1 1", ReasonFailed, "b: two policies"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Summarise(newPolicy(), c.nodes, now)
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
	c := meta.FindStatusCondition(Summarise(p, nil, now).Conditions, v1alpha1.ConditionApplied)
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
	s := Summarise(newPolicy(), nodes, now)
	if s.Applied != 250 || s.Failed != 250 || len(s.AppliedNodes) != maxApplied ||
		len(s.Failures) != maxFailures || len(s.Failures[0].Reason) > maxReason {
		t.Errorf("%d applied (%d named), %d failed (%d named)", s.Applied, len(s.AppliedNodes),
			s.Failed, len(s.Failures))
	}
}

// The controller looks again when the first node may be silent, and not for silent ones.
func TestUntilSilent(t *testing.T) {
	r := v1alpha1.PolicyReport{Name: "gpu"}
	late := reporting("late", r)
	late.Status.HeartbeatTime = metav1.NewTime(now.Add(-time.Minute))
	nodes := []v1alpha1.NodeState{reporting("a", r), late, silent("b", r),
		reporting("other", v1alpha1.PolicyReport{Name: "cpu"})}
	if got, want := untilSilent(newPolicy(), nodes, now), 2*time.Minute+delay; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := untilSilent(newPolicy(), nodes[2:], now); got != 0 {
		t.Errorf("without a reporting node: %s", got)
	}
}
