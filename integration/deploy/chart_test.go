package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/hack/kube"
)

// decode returns the objects of a manifest by kind and name.
func decode(t *testing.T, manifest string) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := kube.Decode(strings.NewReader(manifest))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		all[o.GetKind()+" "+o.GetName()] = o
	}
	return all
}

func TestLint(t *testing.T) {
	for name, args := range map[string][]string{
		"defaults": nil,
		"enforce":  enforce(),
		"all":      {"--set=monitoring.enabled=true,networkPolicy.enabled=true,crds.keep=true"},
	} {
		if out, err := helm(t, append([]string{"lint", "--strict", chart}, args...)...); err !=
			nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// TestValuesAreChecked expects invalid values to be refused with the value's name and the allowed
// range.
func TestValuesAreChecked(t *testing.T) {
	observing := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(observing, []byte("mode: observe\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		want []string
	}{
		"unknown value":       {[]string{"--set=agents.enabled=false"}, []string{"agents"}},
		"unknown value below": {[]string{"--set=agent.enable=false"}, []string{"enable"}},
		"mode": {[]string{"--set=mode=strict"},
			[]string{"mode", "observe", "enforce"}},
		"webhooks": {[]string{"--set=webhooks.enabled=maybe"}, []string{"enabled", "boolean"}},
		"failure policy": {[]string{"--set=webhooks.failurePolicy=ignore"},
			[]string{"failurePolicy", "Ignore", "Fail"}},
		"no number": {[]string{"--set-string=controller.replicas=2"},
			[]string{"replicas", "integer"}},
		"time-out": {[]string{"--set=webhooks.timeoutSeconds=3"}, []string{"timeoutSeconds", "4"}},
		"Fail without replicas": {
			append(enforce(), "--set=webhooks.failurePolicy=Fail,controller.replicas=0"),
			[]string{"controller.replicas is 0", "want at least 1"}},
		"no namespace": {[]string{"--namespace=default"},
			[]string{`"default"`, "--namespace=mooring-system"}},
		"namespace of another": {[]string{"--namespace=kube-system"},
			[]string{`"kube-system"`, "--namespace=mooring-system"}},
		"digest": {[]string{"--set=images.agent.digest=abc"},
			[]string{"digest", "sha256"}},
		"max unavailable": {[]string{"--set=agent.maxUnavailable=0"},
			[]string{"/agent/maxUnavailable", "minimum: got 0, want 1"}},
		"affinity": {[]string{"--set=agent.affinity.nodes=x"}, []string{"/agent/affinity"}},
		"no registry": {[]string{"--set=images.registry="},
			[]string{"images.registry is empty", "--set images.registry="}},
		"prefix without a slash": {[]string{"--set=controller.quota.annotationPrefix=example.com"},
			[]string{"annotationPrefix"}},
		"two modes": {[]string{"--set=mode=enforce", "--set-file=agent.policy=" + observing},
			[]string{`agent.policy has mode "observe", and mode is "enforce"`}},
		"restart of all nodes": {
			[]string{"--set=containerd.configure=true,containerd.restart=true"},
			[]string{"on all nodes at once", "helm upgrade"}},
		"port": {[]string{"--set=networkPolicy.apiServerPorts={0}"},
			[]string{"apiServerPorts", "1"}},
		"clean-up below an agent": {[]string{"--set=nodeCleanup.enabled=true"},
			[]string{"agent.enabled=false"}},
		"plugin API of KubeVirt 1.7": {[]string{"--set=kubevirt.plugin.enabled=true"},
			[]string{"plugin.kubevirt.io/v1alpha1", "want KubeVirt 1.9"}},
		"plugin without an agent": {withPlugin("--set=agent.enabled=false"),
			[]string{"agent.enabled is false", "want kubevirt.plugin.enabled=false"}},
		"plugin's strategy": {withPlugin("--set=kubevirt.plugin.failureStrategy=Retry"),
			[]string{"failureStrategy", "Fail", "Ignore"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := helm(t, append([]string{"template", chart, "--namespace=" + system},
				tt.args...)...)
			for _, want := range tt.want {
				if err == nil || !strings.Contains(out, want) {
					t.Errorf("%v, printed %q, want %q in it", err, out, want)
				}
			}
		})
	}
}

func TestParts(t *testing.T) {
	all := decode(t, render(t))
	tests := map[string]struct {
		args    []string
		without []string // missing compared with the defaults
		with    []string
	}{
		"no agent": {
			[]string{"--set=agent.enabled=false,fence.enabled=false"},
			[]string{"DaemonSet mooring-agent", "DaemonSet mooring-fence",
				"ConfigMap mooring-agent", "ClusterRole mooring-agent"}, nil,
		},
		"no controller": {
			[]string{"--set=controller.enabled=false"},
			[]string{
				"Deployment mooring-controller", "Service mooring-controller",
				"PodDisruptionBudget mooring-controller",
				"ValidatingWebhookConfiguration mooring-guard", "MutatingWebhookConfiguration " +
					"mooring-launcher", "ClusterRole mooring-controller",
			}, nil,
		},
		"no webhooks": {
			[]string{"--set=webhooks.enabled=false"},
			[]string{
				"ValidatingWebhookConfiguration mooring-guard", "MutatingWebhookConfiguration " +
					"mooring-launcher",
				"Secret mooring-webhook-certificates",
			}, nil,
		},
		"no policy": {
			[]string{"--set=annotations.policy=false"},
			[]string{
				"ValidatingAdmissionPolicy mooring-annotations",
				"ValidatingAdmissionPolicyBinding mooring-quota-annotations",
				"ValidatingAdmissionPolicy mooring-launchers",
				"ClusterRoleBinding mooring-launchers",
			}, nil,
		},
		"no right to label": {
			[]string{"--set=annotations.setters=null"},
			[]string{"ClusterRoleBinding mooring-annotations",
				"ClusterRoleBinding mooring-launchers"}, nil,
		},
		"no uninstall": {[]string{"--set=uninstall.hook=false"},
			[]string{"Job mooring-uninstall", "ClusterRole mooring-uninstall"}, nil},
		"more": {
			[]string{"--set=monitoring.enabled=true,networkPolicy.enabled=true," +
				"monitoring.rules.enabled=true,monitoring.dashboard.enabled=true"}, nil,
			[]string{"ServiceMonitor mooring-controller", "PodMonitor mooring-agent",
				"NetworkPolicy mooring-controller", "PrometheusRule mooring",
				"ConfigMap mooring-dashboard"},
		},
		"clean-up": {
			[]string{"--set=agent.enabled=false,fence.enabled=false,nodeCleanup.enabled=true"}, nil,
			[]string{"DaemonSet mooring-node-cleanup"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := decode(t, render(t, tt.args...))
			for _, object := range tt.without {
				if got[object] != nil || all[object] == nil {
					t.Errorf("%s: there %t, by default %t", object, got[object] != nil,
						all[object] != nil)
				}
			}
			for _, object := range tt.with {
				if got[object] == nil || all[object] != nil {
					t.Errorf("%s: there %t, by default %t", object, got[object] != nil,
						all[object] != nil)
				}
			}
		})
	}
}

func TestImages(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	got := map[string]bool{}
	for line := range strings.Lines(
		render(t, "--set=images.registry=registry.example.com/vm/,images.agent.digest="+digest+
			",images.controller.tag=v1")) {
		if image, ok := strings.CutPrefix(strings.TrimSpace(line), "image: "); ok {
			got[image] = true
		}
	}
	want := map[string]bool{
		"registry.example.com/vm/mooring-agent@" + digest: true,
		"registry.example.com/vm/mooring-controller:v1":   true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}

// TestStagedUpgrade keeps the controller's image while the agents are upgraded, as upgrade.md does.
func TestStagedUpgrade(t *testing.T) {
	all := decode(t, render(t, "--set=images.controller.tag=v0.1.0,agent.maxUnavailable=10%"))
	for object, want := range map[string]string{
		"DaemonSet mooring-agent": ":v0.2.0-dev", "DaemonSet mooring-fence": ":v0.2.0-dev",
		"Deployment mooring-controller": ":v0.1.0",
	} {
		spec, _, _ := unstructured.NestedMap(all[object].Object, "spec")
		containers, _, _ := unstructured.NestedSlice(spec, "template", "spec", "containers")
		image := containers[0].(map[string]any)["image"].(string)
		if !strings.HasSuffix(image, want) {
			t.Errorf("%s has image %s, want tag %s", object, image, want)
		}
		away, _, _ := unstructured.NestedString(spec, "updateStrategy", "rollingUpdate",
			"maxUnavailable")
		if strings.HasPrefix(object, "DaemonSet") && away != "10%" {
			t.Errorf("%s: maxUnavailable %s", object, away)
		}
	}
}

// TestMonitoring compares the alerts and the dashboard with their files.
func TestMonitoring(t *testing.T) {
	all := decode(t, render(t, "--set=monitoring.rules.enabled=true",
		"--set=monitoring.dashboard.enabled=true,monitoring.labels.release=prometheus"))
	var want map[string]any
	text := read(t, chart+"/files/monitoring/alerts.yaml")
	if err := yaml.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	rule := all["PrometheusRule mooring"]
	if diff := cmp.Diff(want, rule.Object["spec"]); diff != "" {
		t.Errorf("rules (-file +chart):\n%s", diff)
	}
	if rule.GetLabels()["release"] != "prometheus" {
		t.Errorf("labels %v", rule.GetLabels())
	}
	dashboard := all["ConfigMap mooring-dashboard"]
	shown, _, _ := unstructured.NestedString(dashboard.Object, "data", "mooring.json")
	if diff := cmp.Diff(read(t, chart+"/files/monitoring/dashboard.json"),
		strings.TrimSpace(shown)); diff != "" {
		t.Errorf("dashboard (-file +chart):\n%s", diff)
	}
}

// TestRecommendedLabels wants the labels that Kubernetes recommends at every object of the chart but
// its CRDs and its namespace. Selectors and pods keep two labels, because selectors cannot change.
func TestRecommendedLabels(t *testing.T) {
	objects := decode(t, render(t, "--set=webhooks.enabled=true,networkPolicy.enabled=true"))
	for name, o := range objects {
		labels := o.GetLabels()
		switch o.GetKind() {
		case "CustomResourceDefinition", "Namespace":
			continue
		case "DaemonSet", "Deployment":
			pods, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata",
				"labels")
			if len(pods) != 2 || pods["app.kubernetes.io/component"] == "" {
				t.Errorf("%s: pods have labels %v", name, pods)
			}
		}
		for _, key := range []string{"name", "component", "part-of", "instance", "version"} {
			if labels["app.kubernetes.io/"+key] == "" {
				t.Errorf("%s has no label app.kubernetes.io/%s", name, key)
			}
		}
	}
}

// TestVersions wants the chart's version in the tags of all images, and the same in a release.
func TestVersions(t *testing.T) {
	var version struct{ Version, AppVersion string }
	if err := yaml.Unmarshal([]byte(read(t, chart+"/Chart.yaml")), &version); err != nil {
		t.Fatal(err)
	}
	if version.AppVersion != "v"+version.Version {
		t.Errorf("version %s, appVersion %s", version.Version, version.AppVersion)
	}
	text := render(t, "--set=nodeCleanup.enabled=true,agent.enabled=false,fence.enabled=false") +
		render(t)
	for line := range strings.Lines(text) {
		if image, ok := strings.CutPrefix(strings.TrimSpace(line), "image: "); ok &&
			!strings.HasSuffix(image, ":"+version.AppVersion) {
			t.Errorf("image %s, want tag %s", image, version.AppVersion)
		}
	}
}

// The modes differ in the node policy's mode, the actions of the admission policies, the
// controller's mode and its rights, the failure policy of the webhooks for pods, and in nothing
// else.
func TestModes(t *testing.T) {
	const mode = "--set=mode=enforce"
	for name, args := range map[string][]string{"observe": nil, "enforce": {mode}} {
		objects := decode(t, render(t, args...))
		text, _, _ := unstructured.NestedString(objects["ConfigMap mooring-agent"].Object, "data",
			"policy.yaml")
		if diff := cmp.Diff(read(t, "../../deploy/policy/"+name+".yaml"),
			strings.TrimSpace(text)); diff != "" {
			t.Errorf("%s: node policy (-want +got):\n%s", name, diff)
		}
		for _, admission := range policies() {
			binding := objects["ValidatingAdmissionPolicyBinding "+admission]
			actions, _, _ := unstructured.NestedStringSlice(binding.Object, "spec",
				"validationActions")
			if want := map[string]string{"observe": "[Warn Audit]",
				"enforce": "[Deny Audit]"}[name]; fmt.Sprint(actions) != want {
				t.Errorf("%s: %s does %v, want %s", name, admission, actions, want)
			}
		}
	}
	changed := regexp.MustCompile(
		`mode: (observe|enforce)|--mode=|\[(Warn|Deny), Audit\]|checksum/policy|verbs: \[.*\]|` +
			`failurePolicy: (Ignore|Fail)`)
	observe, enforce := strings.Split(render(t), "\n"), strings.Split(render(t, mode), "\n")
	if len(observe) != len(enforce) {
		t.Fatalf("%d lines in mode observe, %d in mode enforce", len(observe), len(enforce))
	}
	for i, line := range observe {
		if line != enforce[i] && !changed.MatchString(line) {
			t.Errorf("the modes differ:\n%s\n%s", line, enforce[i])
		}
	}
}

// A policy without a mode gets the chart's.
func TestPolicyWithoutMode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.yaml")
	text := "---\napiVersion: mooring.dev/v1alpha1\nkind: NodePolicy\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	objects := decode(t, render(t, "--set=mode=enforce", "--set-file=agent.policy="+file))
	got, _, _ := unstructured.NestedString(objects["ConfigMap mooring-agent"].Object, "data",
		"policy.yaml")
	if p, err := policy.Parse([]byte(got)); err != nil || p.Mode != policy.Enforce {
		t.Errorf("got %v, %v:\n%s", p, err, got)
	}
}

// Policies by pool become NodePolicies with the chart's mode, once the cluster knows the kind.
func TestPoliciesByPool(t *testing.T) {
	file := filepath.Join(t.TempDir(), "values.yaml")
	const values = "policies:\n- {name: gpu, spec: {nodeSelector: {matchLabels: {pool: gpu}}, " +
		"priority: 10, rules: [{name: vms, namespaces: [vms], memlock: {max: 64Gi}}]}}\n"
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	const known = "--api-versions=mooring.dev/v1alpha1/NodePolicy"
	for _, mode := range []policy.Mode{policy.Observe, policy.Enforce} {
		o := decode(t, render(t, "--values="+file, known,
			"--set=mode="+string(mode)))["NodePolicy gpu"]
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := policy.Parse(text); err != nil || p.Mode != mode || len(p.Rules) != 1 {
			t.Errorf("%s: %+v, %v:\n%s", mode, p, err, text)
		}
	}
	for want, args := range map[string][]string{
		"install without policies": nil,
		`has mode "enforce"`:       {known, "--set=policies[0].spec.mode=enforce"},
	} {
		out, err := helm(t, append([]string{"template", chart, "--namespace=" + system,
			"--values=" + file}, args...)...)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%v, printed %q, want %q in it", err, out, want)
		}
	}
}

// In mode observe the controller has no right to write VMs, quotas and namespaces.
func TestRightsFollowTheMode(t *testing.T) {
	const off = "--set=controller.args={--halt-vms=false}"
	tests := map[string]struct {
		args         []string
		writes, halt bool
	}{
		"observe":                   {nil, false, false},
		"observe, and halt":         {[]string{"--set=controller.args={--halt-vms}"}, false, false},
		"enforce":                   {enforce(), true, true},
		"enforce, but for VMs":      {append(enforce(), off), true, false},
		"enforce, without webhooks": {append(enforce(), "--set=webhooks.enabled=false"), true, true},
		"the last one counts": {append(enforce(),
			"--set=controller.args={--halt-vms=false,--halt-vms=true}"), true, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			role := decode(t, render(t, tt.args...))["ClusterRole mooring-controller"]
			for resource, want := range map[string]bool{"resourcequotas": tt.writes,
				"namespaces": tt.writes, "virtualmachines": tt.halt} {
				got := verbs(t, role, resource)
				writes := slices.ContainsFunc(got, func(verb string) bool {
					return !slices.Contains([]string{"get", "list", "watch"}, verb)
				})
				if writes != want {
					t.Errorf("of %s it may %v, want a write among it: %t", resource, got, want)
				}
			}
		})
	}
	without := decode(t, render(t, "--set=webhooks.enabled=false",
		off))["ClusterRole mooring-controller"]
	if got := verbs(t, without, "virtualmachines"); len(got) > 0 {
		t.Errorf("of VMs a controller may %v that neither halts them nor is asked about them", got)
	}
}

// verbs returns the verbs allowed by a role for a resource.
func verbs(t *testing.T, role *unstructured.Unstructured, resource string) (all []string) {
	t.Helper()
	r := &rbacv1.ClusterRole{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(role.Object, r); err != nil {
		t.Fatal(err)
	}
	for _, rule := range r.Rules {
		if slices.Contains(rule.Resources, resource) {
			all = append(all, rule.Verbs...)
		}
	}
	return all
}

// The controller may annotate namespaces only if its own annotation prefix is used there.
func TestControllerAnnotatesNamespaces(t *testing.T) {
	for prefix, want := range map[string]bool{"harvesterhci.io/": false, "vm.mooring.dev/": true} {
		all := decode(t, render(t, "--set=controller.quota.annotationPrefix="+prefix))
		for _, role := range []string{"ClusterRole mooring-controller",
			"ClusterRole mooring-uninstall"} {
			if got := verbs(t, all[role], "namespaceannotations"); (len(got) > 0) != want {
				t.Errorf("%s: %s may %v, want that it may: %t", prefix, role, got, want)
			}
		}
	}
}
