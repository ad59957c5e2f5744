package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// TestNodePolicy narrows the ceiling by an object. Its status names the nodes, and it refuses a
// launcher that the policy file allows. After its deletion the same pod starts.
func TestNodePolicy(t *testing.T) {
	c := start(t)
	api, err := c.api()
	if err != nil {
		t.Fatal(err)
	}
	most := resource.MustParse("2Gi")
	p := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "e2e"},
		Spec: v1alpha1.NodePolicySpec{Mode: string(policy.Enforce),
			Rules: []v1alpha1.NodePolicyRule{{Name: "small", Namespaces: []string{namespace},
				Memlock: &v1alpha1.NodePolicyPodMemlock{Max: &most}}}}}
	if err := api.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := deletePolicy(context.WithoutCancel(t.Context()), api, p); err != nil {
			t.Error(err)
		}
	})
	c.awaitApplied(t, api, p)
	c.create(t, launcher("narrowed", withDevice()))
	c.awaitEvent(t, "narrowed", "Failed", "memlock", `rule "small"`, "2Gi")

	if err := deletePolicy(t.Context(), api, p); err != nil {
		t.Fatal(err)
	}
	c.awaitRunning(t, "narrowed")
	want := fmt.Sprintf("memlock %d %d", lock, lock)
	if got := c.run(t, "narrowed", "limits", "1"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// awaitApplied returns when the policy's status names all nodes with an agent.
func (c *cluster) awaitApplied(t *testing.T, api client.Client, p *v1alpha1.NodePolicy) {
	t.Helper()
	eventually(t, "NodePolicy "+p.Name+" to be applied", func(ctx context.Context) error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		want := c.agentNodes(t)
		if !slices.Equal(p.Status.AppliedNodes, want) ||
			!meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionApplied) {
			return fmt.Errorf("status %+v, want nodes %v", p.Status, want)
		}
		return nil
	})
}

// deletePolicy deletes a policy, and returns when no node reports it. A missing one is no error.
func deletePolicy(ctx context.Context, api client.Client, p *v1alpha1.NodePolicy) error {
	if err := api.Delete(ctx, p); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return await(ctx, "the nodes to drop NodePolicy "+p.Name, func(ctx context.Context) error {
		states := &v1alpha1.NodeStateList{}
		if err := api.List(ctx, states); err != nil {
			return err
		}
		for _, s := range states.Items {
			if s.Status.Policy != nil && s.Status.Policy.Name == p.Name {
				return fmt.Errorf("node %s has it", s.Name)
			}
		}
		return nil
	})
}
