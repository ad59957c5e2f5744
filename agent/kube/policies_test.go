package kube

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

func selecting(name string, priority int32, pool string) *v1alpha1.NodePolicy {
	p := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Priority = priority
	if pool != "" {
		p.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}}
	}
	return p
}

func TestChoosePolicy(t *testing.T) {
	invalid := selecting("invalid", 99, "")
	invalid.Spec.NodeSelector = &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Near"}}}
	all, gpu, cpu := selecting("all", 0, ""), selecting("gpu", 10, "gpu"), selecting("cpu", 20, "cpu")
	for name, c := range map[string]struct {
		of   []*v1alpha1.NodePolicy
		want string
		err  string
	}{
		"none":              {nil, "", ""},
		"none selects":      {[]*v1alpha1.NodePolicy{cpu}, "", ""},
		"the highest":       {[]*v1alpha1.NodePolicy{all, gpu, cpu}, "gpu", ""},
		"in any order":      {[]*v1alpha1.NodePolicy{cpu, gpu, all}, "gpu", ""},
		"everywhere":        {[]*v1alpha1.NodePolicy{cpu, all}, "all", ""},
		"an invalid one":    {[]*v1alpha1.NodePolicy{invalid, all}, "all", ""},
		"a lower conflict":  {[]*v1alpha1.NodePolicy{all, selecting("b", 0, ""), gpu}, "gpu", ""},
		"conflict":          {[]*v1alpha1.NodePolicy{gpu, selecting("a", 10, "gpu"), all}, "a", `"a" and "gpu"`},
		"conflict, beneath": {[]*v1alpha1.NodePolicy{selecting("b", 0, ""), all}, "all", "spec.priority: 0: "},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := choosePolicy(c.of, map[string]string{"pool": "gpu"}, "all")
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if got == nil && c.want != "" || got != nil && got.Name != c.want {
				t.Errorf("chose %+v, want %q", got, c.want)
			}
		})
	}
}

// TestChoiceWithAFaultyEdit makes the selector of the policy in force invalid. The node must not fall
// to another policy.
func TestChoiceWithAFaultyEdit(t *testing.T) {
	edited := selecting("gpu", 10, "")
	edited.Spec.NodeSelector = &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "in"}}}
	all := []*v1alpha1.NodePolicy{selecting("all", 0, ""), edited}
	got, err := choosePolicy(all, map[string]string{"pool": "gpu"}, "gpu")
	if err == nil || !strings.Contains(err.Error(), "spec.nodeSelector") || got != edited {
		t.Errorf("got %+v, %v", got, err)
	}
}
