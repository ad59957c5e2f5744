package kubernetes

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/internal/buildinfo"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/command"
)

const controllerName = "mooring-controller"

func controllerSpec(t *testing.T) corev1.PodSpec {
	t.Helper()
	return the[*appsv1.Deployment](t, controllerName).Spec.Template.Spec
}

// TestControllerCommandLine compares the flags with the program, the ports, the probes and objects.
func TestControllerCommandLine(t *testing.T) {
	container := controllerSpec(t).Containers[0]
	root := command.Command(buildinfo.Info{}, io.Discard)
	if err := root.ParseFlags(container.Args); err != nil {
		t.Fatal(err)
	}
	for port, flag := range map[string]string{"metrics": "listen", "webhooks": "webhook-listen"} {
		at := slices.IndexFunc(container.Ports, func(p corev1.ContainerPort) bool {
			return p.Name == port
		})
		want := map[string]int32{":9809": 9809, ":9443": 9443}[root.Flag(flag).Value.String()]
		if at < 0 || container.Ports[at].ContainerPort != want {
			t.Errorf("--%s is %s, the ports are %v", flag, root.Flag(flag).Value, container.Ports)
		}
	}
	for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe} {
		if probe.HTTPGet.Port.StrVal != "metrics" {
			t.Errorf("probe of port %q", probe.HTTPGet.Port.StrVal)
		}
	}
	the[*corev1.Service](t, root.Flag("webhook-service").Value.String())
	the[*corev1.Secret](t, root.Flag("webhook-secret").Value.String())
}

// One replica must work during the drain or the loss of a node.
func TestControllerStaysAvailable(t *testing.T) {
	d := the[*appsv1.Deployment](t, controllerName)
	budget := the[*policyv1.PodDisruptionBudget](t, controllerName)
	if *d.Spec.Replicas != 2 || budget.Spec.MaxUnavailable.IntValue() != 1 ||
		d.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 0 {
		t.Errorf("%d replicas, of which %s may be away, and %s in an update",
			*d.Spec.Replicas, budget.Spec.MaxUnavailable,
			d.Spec.Strategy.RollingUpdate.MaxUnavailable)
	}
	for name, selector := range map[string]map[string]string{
		"Deployment":          d.Spec.Selector.MatchLabels,
		"PodDisruptionBudget": budget.Spec.Selector.MatchLabels,
		"Service":             the[*corev1.Service](t, controllerName).Spec.Selector,
		"spread":              d.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels,
	} {
		if diff := cmp.Diff(d.Spec.Template.Labels, selector); diff != "" {
			t.Errorf("%s selects other pods (-pods +selector):\n%s", name, diff)
		}
	}
}

// TestAnnotationsOfQuotas: the policy protects each annotation of the controller on quotas and
// reservations.
func TestAnnotationsOfQuotas(t *testing.T) {
	policy := the[*admissionv1.ValidatingAdmissionPolicy](t, "mooring-quota-annotations")
	at := slices.IndexFunc(policy.Spec.Variables, func(v admissionv1.Variable) bool {
		return v.Name == "ours"
	})
	for _, key := range append(quota.StateAnnotations(), quota.TargetAnnotation) {
		if at < 0 || !strings.Contains(policy.Spec.Variables[at].Expression, "'"+key+"'") {
			t.Errorf("the policy does not protect %s", key)
		}
	}
}

func TestServicePorts(t *testing.T) {
	got := map[int32]string{}
	for _, p := range the[*corev1.Service](t, controllerName).Spec.Ports {
		got[p.Port] = p.TargetPort.StrVal
	}
	if diff := cmp.Diff(map[int32]string{443: "webhooks", 9809: "metrics"}, got); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

// hook has the fields of a webhook that differ between webhooks.
type hook struct {
	Path, Resources, Operations string
	SideEffects                 string
	LaunchersAlone              bool
}

func TestWebhooks(t *testing.T) {
	got := map[string]hook{}
	for _, w := range theIn[*admissionv1.ValidatingWebhookConfiguration](t, "install.yaml",
		"mooring-guard").Webhooks {
		checkWebhook(t, w.Name, w.ClientConfig, w.NamespaceSelector, w.FailurePolicy,
			w.TimeoutSeconds)
		got[w.Name] = newHook(w.ClientConfig, w.Rules, w.SideEffects, w.ObjectSelector)
	}
	for _, w := range theIn[*admissionv1.MutatingWebhookConfiguration](t, "install.yaml",
		"mooring-launcher").Webhooks {
		checkWebhook(t, w.Name, w.ClientConfig, w.NamespaceSelector, w.FailurePolicy,
			w.TimeoutSeconds)
		got[w.Name] = newHook(w.ClientConfig, w.Rules, w.SideEffects, w.ObjectSelector)
		if *w.ReinvocationPolicy != admissionv1.IfNeededReinvocationPolicy {
			t.Errorf("%s is not called again after a later change", w.Name)
		}
	}
	want := map[string]hook{
		"resourcequotas.guard.mooring.dev": {"/validate-resourcequota", "resourcequotas",
			"UPDATE DELETE", "NoneOnDryRun", false},
		"namespaces.guard.mooring.dev": {"/validate-namespace", "namespaces", "UPDATE",
			"NoneOnDryRun", false},
		"virtualmachines.guard.mooring.dev": {"/validate-virtualmachine",
			"virtualmachines virtualmachines/status", "CREATE UPDATE UPDATE", "NoneOnDryRun", false},
		"virtualmachinerestores.guard.mooring.dev": {"/validate-virtualmachinerestore",
			"virtualmachinerestores", "CREATE", "NoneOnDryRun", false},
		"virtualmachineinstancemigrations.guard.mooring.dev": {"/validate-migration",
			"virtualmachineinstancemigrations", "CREATE", "NoneOnDryRun", false},
		"launchers.guard.mooring.dev": {"/validate-launcher", "pods", "CREATE",
			"NoneOnDryRun", true},
		"pods.guard.mooring.dev": {"/validate-pod", "pods", "CREATE", "NoneOnDryRun", false},
		"resizes.guard.mooring.dev": {"/validate-pod", "pods/resize", "UPDATE", "NoneOnDryRun",
			false},
		"launchers.mooring.dev": {"/mutate-launcher", "pods", "CREATE", "NoneOnDryRun", true},
		"resized-launchers.mooring.dev": {"/mutate-launcher", "pods", "CREATE", "NoneOnDryRun",
			true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("webhooks (-want +got):\n%s", diff)
	}
}

// TestResizedLaunchers: exactly one of the two webhooks for launchers receives each launcher.
func TestResizedLaunchers(t *testing.T) {
	for name, pod := range map[string]labels.Set{
		"launchers.mooring.dev": {kubevirtv1.AppLabel: quota.LauncherApp},
		"resized-launchers.mooring.dev": {kubevirtv1.AppLabel: quota.LauncherApp,
			api.ResizedLabel: "true"},
		"": {api.ResizedLabel: "true"},
	} {
		var got []string
		for _, w := range theIn[*admissionv1.MutatingWebhookConfiguration](t, "install.yaml",
			"mooring-launcher").Webhooks {
			selector, err := metav1.LabelSelectorAsSelector(w.ObjectSelector)
			if err != nil {
				t.Fatal(err)
			}
			if selector.Matches(pod) {
				got = append(got, w.Name)
			}
		}
		if strings.Join(got, " ") != name {
			t.Errorf("pod %v: webhooks %q, want %q", pod, got, name)
		}
	}
}

func newHook(
	c admissionv1.WebhookClientConfig, rules []admissionv1.RuleWithOperations,
	effects *admissionv1.SideEffectClass, objects *metav1.LabelSelector,
) hook {
	h := hook{Path: *c.Service.Path, SideEffects: string(*effects)}
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			h.Resources = joined(h.Resources, resource)
		}
		for _, operation := range rule.Operations {
			h.Operations = joined(h.Operations, string(operation))
		}
	}
	h.LaunchersAlone = objects != nil && objects.MatchLabels["kubevirt.io"] == "virt-launcher"
	return h
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + " " + b
}

// checkWebhook checks the fields common to all webhooks. None may block the start of the cluster or
// of Mooring.
func checkWebhook(
	t *testing.T, name string, c admissionv1.WebhookClientConfig, namespaces *metav1.LabelSelector,
	failure *admissionv1.FailurePolicyType, timeout *int32,
) {
	t.Helper()
	if c.Service.Name != controllerName || c.Service.Namespace != namespace || len(c.CABundle) > 0 {
		t.Errorf("%s: service %s/%s, %d bytes of caBundle", name, c.Service.Namespace,
			c.Service.Name, len(c.CABundle))
	}
	if *failure != admissionv1.Ignore || *timeout != 5 {
		t.Errorf("%s: %s after %d s", name, *failure, *timeout)
	}
	want := []metav1.LabelSelectorRequirement{{
		Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn,
		Values: []string{"kube-system", namespace},
	}}
	if diff := cmp.Diff(want, namespaces.MatchExpressions); diff != "" {
		t.Errorf("%s: namespaces (-want +got):\n%s", name, diff)
	}
}
