package deploy

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubetest "github.com/mooring-vm/mooring/integration/kube"
	"github.com/mooring-vm/mooring/quota"
)

// policies returns the names of the admission policies. Each has a binding of the same name.
func policies() []string {
	return []string{
		"mooring-annotations", "mooring-launchers", "mooring-namespace-annotations",
		"mooring-quota-annotations", "mooring-vm-annotations",
	}
}

// configurations returns the webhook configurations.
func configurations() []string {
	return []string{"ValidatingWebhookConfiguration mooring-guard",
		"MutatingWebhookConfiguration mooring-launcher"}
}

// The API server calls webhooks in both modes. In mode observe the controller only reports.
func TestWebhooksAreServed(t *testing.T) {
	const off = "--set=webhooks.enabled=false"
	tests := map[string]struct {
		args   []string
		served bool
	}{
		"observe":                {nil, true},
		"observe, switched off":  {[]string{off}, false},
		"enforce":                {enforce(), true},
		"enforce, switched off":  {append(enforce(), off), false},
		"no controller":          {[]string{"--set=controller.enabled=false"}, false},
		"enforce, no controller": {append(enforce(), "--set=controller.enabled=false"), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			all := decode(t, render(t, tt.args...))
			for _, configuration := range configurations() {
				if (all[configuration] != nil) != tt.served {
					t.Errorf("%s: there %t, want %t", configuration, all[configuration] != nil,
						tt.served)
				}
			}
			secret, served := all["Secret mooring-webhook-certificates"] != nil,
				serves(t, all["Deployment mooring-controller"])
			if secret != tt.served || served != tt.served {
				t.Errorf("there is a Secret: %t, the controller serves: %t; want %t", secret,
					served, tt.served)
			}
		})
	}
}

// serves reports whether the controller listens for webhook requests.
func serves(t *testing.T, deployment *unstructured.Unstructured) bool {
	t.Helper()
	if deployment == nil {
		return false
	}
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec",
		"containers")
	if err != nil || len(containers) != 1 {
		t.Fatalf("containers %v, %v", containers, err)
	}
	args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(args, "--webhook-listen=:9443")
}

// With Fail and without a controller, Kubernetes must still be able to delete a namespace with its
// quotas.
func TestFailIsForVMsAlone(t *testing.T) {
	got := failurePolicies(t, append(enforce(), "--set=webhooks.failurePolicy=Fail")...)
	want := map[string]string{
		"resourcequotas.guard.mooring.dev": "Ignore", "namespaces.guard.mooring.dev": "Ignore",
		"virtualmachineinstancemigrations.guard.mooring.dev": "Ignore",
		"virtualmachines.guard.mooring.dev":                  "Fail",
		"virtualmachinerestores.guard.mooring.dev":           "Fail",
		"launchers.guard.mooring.dev":                        "Fail", "launchers.mooring.dev": "Fail",
		"pods.guard.mooring.dev": "Fail", "resizes.guard.mooring.dev": "Fail",
		"resized-launchers.mooring.dev": "Fail",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("failure policies (-want +got):\n%s", diff)
	}
	for name, policy := range failurePolicies(t, "--set=webhooks.failurePolicy=Fail") {
		if policy != "Ignore" {
			t.Errorf("%s in mode observe: %s", name, policy)
		}
	}
}

// failurePolicies returns the failure policies of the webhooks by name.
func failurePolicies(t *testing.T, args ...string) map[string]string {
	t.Helper()
	all, objects := map[string]string{}, decode(t, render(t, args...))
	for _, configuration := range configurations() {
		for _, hook := range webhooks(t, objects[configuration]) {
			all[hook["name"].(string)] = hook["failurePolicy"].(string)
		}
	}
	return all
}

// TestFailKeepsNoNamespace leaves webhooks with Fail unanswered. Launchers are refused. Kubernetes'
// steps to delete a namespace pass.
func TestFailKeepsNoNamespace(t *testing.T) {
	plane := kubetest.Start(t)
	p := newPolicyTest(t, plane)
	apply(t, plane, render(t, append(enforce(), "--set=webhooks.failurePolicy=Fail")...))
	launcher := p.pod("launcher", nil)
	launcher.Labels = map[string]string{kubevirtv1.AppLabel: "virt-launcher"}
	create := func(ctx context.Context) error {
		return p.admin.Create(ctx, launcher.DeepCopy(), client.DryRunAll)
	}
	t.Cleanup(func() { p.stopCalls(t, create) })
	eventually(t, "launchers to be refused", func() error {
		return checkNoAnswer("launchers.", create(t.Context()))
	})
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace,
		Name: "default"}}
	if err := p.admin.Create(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	labelled := client.RawPatch(client.Merge.Type(), []byte(`{"metadata":{"labels":{"a":"b"}}}`))
	if err := p.admin.Patch(t.Context(), ns, labelled); err != nil {
		t.Errorf("a namespace is changed: %v", err)
	}
	collector := p.as(t, "system:serviceaccount:kube-system:namespace-controller",
		rest.NoWarnings{})
	if err := collector.Delete(t.Context(), q); err != nil {
		t.Errorf("a quota is deleted with its namespace: %v", err)
	}
}

// stopCalls removes the webhooks at the end of t, and returns when the API server no longer calls
// them.
func (p *policyTest) stopCalls(t *testing.T, create func(context.Context) error) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, o := range []client.Object{
		&admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "mooring-guard"}},
		&admissionv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "mooring-launcher"}},
	} {
		if err := p.admin.Delete(ctx, o); err != nil {
			t.Error(err)
		}
	}
	var last error
	if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			last = create(ctx)
			return last == nil, nil
		}); err != nil {
		t.Errorf("waiting for requests to be let through: %v", last)
	}
}

func webhooks(t *testing.T, configuration *unstructured.Unstructured) (all []map[string]any) {
	t.Helper()
	hooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil || len(hooks) == 0 {
		t.Fatalf("%s: %d webhooks, %v", configuration.GetName(), len(hooks), err)
	}
	for _, hook := range hooks {
		all = append(all, hook.(map[string]any))
	}
	return all
}

// Excluding a namespace from the webhooks must not allow every user to set annotations there.
func TestExcludedNamespaces(t *testing.T) {
	all := decode(t,
		render(t,
			append(enforce(),
				"--set=webhooks.excludedNamespaces={a},annotations.excludedNamespaces={b}")...))
	for _, configuration := range configurations() {
		for _, hook := range webhooks(t, all[configuration]) {
			checkExcluded(t, hook["name"].(string), hook["namespaceSelector"], "a")
		}
	}
	for _, name := range policies() {
		constraints, _, err := unstructured.NestedMap(all["ValidatingAdmissionPolicy "+name].Object,
			"spec", "matchConstraints")
		if err != nil {
			t.Fatal(err)
		}
		checkExcluded(t, name, constraints["namespaceSelector"], "b")
	}
}

// checkExcluded checks that a selector excludes the fixed namespaces and one more.
func checkExcluded(t *testing.T, name string, selector any, namespace string) {
	t.Helper()
	want := map[string]any{"matchExpressions": []any{map[string]any{
		"key": "kubernetes.io/metadata.name", "operator": "NotIn",
		"values": []any{"kube-system", system, namespace},
	}}}
	switch name {
	case "pods.guard.mooring.dev", "resizes.guard.mooring.dev":
		want["matchLabels"] = map[string]any{quota.ReservedLabel: "true"}
	}
	if diff := cmp.Diff(any(want), selector); diff != "" {
		t.Errorf("%s: namespaces (-want +got):\n%s", name, diff)
	}
}
