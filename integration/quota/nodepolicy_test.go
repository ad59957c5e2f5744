package quota

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/nodepolicy"
)

// TestNodePolicyStatus writes reports in place of agents. The controller, with the rights of its
// role, follows them in the policy's status.
func TestNodePolicyStatus(t *testing.T) {
	c, _ := start(t)
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(c.Plane.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	create := func(o client.Object) {
		t.Helper()
		if err := api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := api.Delete(context.WithoutCancel(t.Context()), o); err != nil {
				t.Error(err)
			}
		})
	}
	p := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "summarised"}}
	create(p)
	await := func(reason, counts string) {
		t.Helper()
		eventually(t, "the reason "+reason, func() error {
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
				return err
			}
			s := p.Status
			condition := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionApplied)
			if got := fmt.Sprint(s.Nodes, s.Applied, s.Failed, s.Pending); got != counts ||
				condition == nil || condition.Reason != reason {
				return fmt.Errorf("counts %s, condition %+v", got, condition)
			}
			return nil
		})
	}
	await(nodepolicy.ReasonNoNodes, "0 0 0 0")
	good := &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: "good"}}
	bad := &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: "bad"}}
	report := func(n *v1alpha1.NodeState, r v1alpha1.PolicyReport) {
		t.Helper()
		n.Status.HeartbeatTime, n.Status.Policy = metav1.Now(), &r
		if err := api.Status().Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	create(good)
	create(bad)
	report(good, v1alpha1.PolicyReport{Name: p.Name, UID: p.UID, Generation: 1, Applied: true})
	await(nodepolicy.ReasonApplied, "1 1 0 0")
	report(bad, v1alpha1.PolicyReport{Name: p.Name, UID: p.UID, Generation: 1, Reason: "a fault"})
	await(nodepolicy.ReasonFailed, "2 1 1 0")
	if got := p.Status.Failures; len(got) != 1 || got[0].Node != "bad" || got[0].Reason != "a fault" {
		t.Errorf("failures %+v", got)
	}
	p.Spec.Priority = 1
	if err := api.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	await(nodepolicy.ReasonPending, "2 0 0 2")
}
