package kubetest

import (
	"context"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/google/go-cmp/cmp"
)

// TestAgentMayDoNothingElse lists the agent's rights beyond an account without roles. The other
// tests use these rights, and so show that they suffice.
func TestAgentMayDoNothingElse(t *testing.T) {
	c := Start(t)
	admin := clientFor(t, c.Config())
	namespace := Namespace(t, admin, "nobody")
	path, err := c.Kubeconfig(t.Context(), namespace, "nobody")
	if err != nil {
		t.Fatal(err)
	}
	baseline := rules(t, clientFor(t, loadConfig(t, path)), namespace)
	agent := rules(t, clientFor(t, agentConfig(t, c)), namespace)

	own := slices.DeleteFunc(agent, func(rule string) bool {
		return slices.Contains(baseline, rule)
	})
	want := []string{
		"create events.k8s.io/events",
		"create mooring.dev/nodestates",
		"get /nodes",
		"get mooring.dev/nodestates",
		"list /nodes",
		"list /pods",
		"list mooring.dev/nodepolicies",
		"patch events.k8s.io/events",
		"update mooring.dev/nodestates/status",
		"watch /nodes",
		"watch /pods",
		"watch mooring.dev/nodepolicies",
	}
	if diff := cmp.Diff(want, own); diff != "" {
		t.Errorf("rights of the agent (-want +got):\n%s", diff)
	}
}

// rules lists a client's rights in a namespace, one verb and resource a line.
func rules(t *testing.T, client kubernetes.Interface, namespace string) []string {
	t.Helper()
	review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
		&authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if review.Status.Incomplete {
		t.Fatalf("the API server does not know all rules: %s", review.Status.EvaluationError)
	}
	var all []string
	for _, r := range review.Status.ResourceRules {
		suffix := strings.Join(append([]string{""}, r.ResourceNames...), " ")
		all = append(all, product(r.Verbs, r.APIGroups, r.Resources, suffix)...)
	}
	for _, r := range review.Status.NonResourceRules {
		all = append(all, product(r.Verbs, []string{"URL"}, r.NonResourceURLs, "")...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func product(verbs, groups, resources []string, suffix string) []string {
	var all []string
	for _, verb := range verbs {
		for _, group := range groups {
			for _, resource := range resources {
				all = append(all, verb+" "+group+"/"+resource+suffix)
			}
		}
	}
	return all
}

// TestAgentIsDenied attempts the operations of an attacker with a stolen agent token.
func TestAgentIsDenied(t *testing.T) {
	c := Start(t)
	namespace := Namespace(t, clientFor(t, c.Config()))
	agent := clientFor(t, agentConfig(t, c))
	core := agent.CoreV1()
	tests := map[string]func(context.Context) error{
		"get a pod": func(ctx context.Context) error {
			_, err := core.Pods(namespace).Get(ctx, "vm", metav1.GetOptions{})
			return err
		},
		"create a pod": func(ctx context.Context) error {
			_, err := core.Pods(namespace).Create(ctx, pod("vm", node, ""), metav1.CreateOptions{})
			return err
		},
		"patch a pod": func(ctx context.Context) error {
			_, err := core.Pods(namespace).Patch(ctx, "vm", types.MergePatchType, []byte("{}"),
				metav1.PatchOptions{})
			return err
		},
		"delete a pod": func(ctx context.Context) error {
			return core.Pods(namespace).Delete(ctx, "vm", metav1.DeleteOptions{})
		},
		"evict a pod": func(ctx context.Context) error {
			return core.Pods(namespace).EvictV1(ctx,
				&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "vm"}})
		},
		"list secrets": func(ctx context.Context) error {
			_, err := core.Secrets(namespace).List(ctx, metav1.ListOptions{})
			return err
		},
		"label its node": func(ctx context.Context) error { // the label selects its policy
			_, err := core.Nodes().Patch(ctx, node, types.MergePatchType, []byte("{}"),
				metav1.PatchOptions{})
			return err
		},
		"read its own policy": func(ctx context.Context) error {
			_, err := core.ConfigMaps("mooring-system").List(ctx, metav1.ListOptions{})
			return err
		},
		"make a token": func(ctx context.Context) error {
			_, err := core.ServiceAccounts(namespace).CreateToken(ctx, "default",
				&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
			return err
		},
		"read Events": func(ctx context.Context) error {
			_, err := agent.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
			return err
		},
		"delete an Event": func(ctx context.Context) error {
			return agent.EventsV1().Events(namespace).Delete(ctx, "e", metav1.DeleteOptions{})
		},
		"write an Event of the old kind": func(ctx context.Context) error {
			_, err := core.Events(namespace).Create(ctx, &corev1.Event{}, metav1.CreateOptions{})
			return err
		},
	}
	for name, try := range tests {
		t.Run(name, func(t *testing.T) {
			if err := try(t.Context()); !apierrors.IsForbidden(err) {
				t.Errorf("got %v, want it to be forbidden", err)
			}
		})
	}
}
