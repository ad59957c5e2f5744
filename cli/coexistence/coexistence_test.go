package coexistence_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/agent/doctor"
	"github.com/mooring-vm/mooring/cli/coexistence"
)

// released is the KubeVirt object of KubeVirt's releases 1.6 to 1.9
// (manifests/generated/kubevirt-cr.yaml.in).
const released = `
apiVersion: kubevirt.io/v1
kind: KubeVirt
metadata: {name: kubevirt, namespace: kubevirt}
spec:
  certificateRotateStrategy: {}
  configuration:
    developerConfiguration: {featureGates: []}
    imagePullPolicy: IfNotPresent
  customizeComponents: {}
  imagePullPolicy: IfNotPresent
  workloadUpdateStrategy: {}
`

// facts returns a cluster with a released KubeVirt and no setting against Mooring.
func facts(t *testing.T, version string) coexistence.Facts {
	t.Helper()
	var object kubevirtv1.KubeVirt
	if err := yaml.UnmarshalStrict([]byte(released), &object); err != nil {
		t.Fatal(err)
	}
	object.Status.TargetKubeVirtVersion = version
	object.Status.ObservedKubeVirtVersion = version
	object.Status.Phase = kubevirtv1.KubeVirtPhaseDeployed
	return coexistence.Facts{
		Objects: []kubevirtv1.KubeVirt{object},
		Pods: []corev1.Pod{podOf("virt-controller", "kubevirt-controller", "control-1"),
			podOf("virt-handler", "kubevirt-handler", "worker-1")},
		Agents:    []string{"worker-1", "worker-2"},
		Admission: coexistence.Admission{Exists: true, Denies: true},
	}
}

func podOf(component, account, node string) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kubevirt", Name: component,
		Labels: map[string]string{kubevirtv1.AppLabel: component}}}
	pod.Spec.ServiceAccountName, pod.Spec.NodeName = account, node
	return pod
}

func TestReleases(t *testing.T) {
	for version, others := range map[string]map[string]doctor.Status{
		"v1.6.0": {"kubevirt-version": doctor.Note}, // not tested with Mooring
		"v1.7.0": nil, "v1.8.4": nil, "v1.9.0": nil,
	} {
		findings := coexistence.Examine(facts(t, version))
		if len(findings) < 8 {
			t.Errorf("%s: %d findings", version, len(findings))
		}
		for _, f := range findings {
			want := doctor.OK
			if other, ok := others[f.Check]; ok {
				want = other
			}
			if f.Status != want || f.Found == "" || f.Means == "" ||
				(f.Mend == "") != (want == doctor.OK) {
				t.Errorf("%s: %+v, want %s", version, f, want)
			}
		}
	}
}

func TestWithoutKubeVirt(t *testing.T) {
	if findings := coexistence.Examine(coexistence.Facts{}); len(findings) > 0 {
		t.Errorf("%+v", findings)
	}
}

// change makes one fact different from facts.
type change func(*coexistence.Facts)

func configure(set func(*kubevirtv1.KubeVirtConfiguration)) change {
	return func(f *coexistence.Facts) { set(&f.Objects[0].Spec.Configuration) }
}

func versions(observed, target string) change {
	return func(f *coexistence.Facts) {
		f.Objects[0].Status.ObservedKubeVirtVersion = observed
		f.Objects[0].Status.TargetKubeVirtVersion = target
	}
}

func live(set kubevirtv1.LiveUpdateConfiguration) change {
	return configure(func(c *kubevirtv1.KubeVirtConfiguration) {
		c.LiveUpdateConfiguration = &set
	})
}

func stage(gates ...string) change {
	return configure(func(c *kubevirtv1.KubeVirtConfiguration) {
		c.VMRolloutStrategy = new(kubevirtv1.VMRolloutStrategyStage)
		c.DeveloperConfiguration.FeatureGates = gates
	})
}

func overcommit(percent int, version string) change {
	return func(f *coexistence.Facts) {
		versions(version, version)(f)
		f.Objects[0].Spec.Configuration.DeveloperConfiguration.MemoryOvercommit = percent
	}
}

func handlers(nodes ...string) change {
	return func(f *coexistence.Facts) {
		f.Pods = nil
		for _, node := range nodes {
			f.Pods = append(f.Pods, podOf("virt-handler", "kubevirt-handler", node))
		}
	}
}

func admission(a coexistence.Admission) change {
	return func(f *coexistence.Facts) { f.Admission = a }
}

// plugin registers a network binding plugin with an overhead.
func plugin(memory string) change {
	return configure(func(c *kubevirtv1.KubeVirtConfiguration) {
		c.NetworkConfiguration = &kubevirtv1.NetworkConfiguration{
			Binding: map[string]kubevirtv1.InterfaceBindingPlugin{"plain": {}, "wide": {
				ComputeResourceOverhead: &kubevirtv1.ResourceRequirementsWithoutClaims{
					Requests: corev1.ResourceList{
						corev1.ResourceMemory: resource.MustParse(memory)}}}}}
	})
}

func denied() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no"))
}

func quantity(text string) *resource.Quantity { return new(resource.MustParse(text)) }

// row expects a finding with these words in its texts.
type row struct {
	change             change
	check              string
	status             doctor.Status
	found, means, mend string
}

func (r row) run(t *testing.T) {
	t.Helper()
	f := facts(t, "v1.7.0")
	r.change(&f)
	for _, got := range coexistence.Examine(f) {
		if got.Check != r.check {
			continue
		}
		if got.Status != r.status || !strings.Contains(got.Found, r.found) ||
			!strings.Contains(got.Means, r.means) || !strings.Contains(got.Mend, r.mend) {
			t.Errorf("%+v, want %+v", got, r)
		}
		if r.status != doctor.OK && got.Mend == "" {
			t.Errorf("%+v has no remedy", got)
		}
		return
	}
	t.Errorf("no finding %s", r.check)
}

func TestVersion(t *testing.T) {
	const check = "kubevirt-version"
	for name, r := range map[string]row{
		"none": {versions("", ""), check, doctor.Problem,
			"status.targetKubeVirtVersion: none", "no memory lock", "virt-operator"},
		"while it is deployed": {versions("", "v1.8.4"), check, doctor.OK, "KubeVirt 1.8.4", "",
			""},
		"unknown": {versions("v1.10.0", "v1.10.0"), check, doctor.Problem,
			`status.observedKubeVirtVersion: KubeVirt version "v1.10.0"`, "no memory lock",
			"another Mooring"},
		"of a developer": {versions("", "devel"), check, doctor.Problem,
			`status.targetKubeVirtVersion: KubeVirt version "devel"`, "as they are", "correct"},
		"update": {versions("v1.7.0", "v1.9.0"), check, doctor.Note,
			"status.observedKubeVirtVersion: v1.7.0, status.targetKubeVirtVersion: v1.9.0",
			"of version v1.7.0", "wait"},
		"update to an unknown version": {versions("v1.9.0", "v1.10.0"), check, doctor.Problem,
			"status.targetKubeVirtVersion: v1.10.0", "want 0.54", "update Mooring"},
		"ratio": {configure(func(c *kubevirtv1.KubeVirtConfiguration) {
			c.AdditionalGuestMemoryOverheadRatio = new("0.5")
		}), check, doctor.Problem, "additionalGuestMemoryOverheadRatio: overhead ratio \"0.5\"",
			"as they are", "correct the field"},
		"two objects": {func(f *coexistence.Facts) {
			f.Objects = append(f.Objects, f.Objects[0])
			f.Objects[1].Namespace = "other"
		}, check, doctor.Problem, "kubevirt/kubevirt, other/kubevirt", "as they are", "delete"},
		"unread": {func(f *coexistence.Facts) { f.ObjectsErr = errors.New("away") }, check,
			doctor.Unknown, "away", "not known", "again"},
		"denied": {func(f *coexistence.Facts) { f.ObjectsErr = denied() }, check, doctor.Unknown,
			"forbidden", "not known", `the verb "list" for kubevirts`},
	} {
		t.Run(name, r.run)
	}
}

func TestAccount(t *testing.T) {
	const check = "kubevirt-account"
	both := []string{coexistence.LauncherLabels, coexistence.PodAnnotations}
	for name, r := range map[string]row{
		"no right": {admission(coexistence.Admission{Exists: true, Denies: true, Missing: both}),
			check, doctor.Problem, "system:serviceaccount:kubevirt:kubevirt-controller lacks the " +
				`verb "set" for launcherlabels and podannotations.mooring.dev`,
			"the API server refuses all launchers", `"namespace":"kubevirt"`},
		"no right for annotations": {admission(coexistence.Admission{Exists: true, Denies: true,
			Missing: both[1:]}), check, doctor.Problem, "podannotations.mooring.dev",
			"refuses launchers with annotations of Mooring", "annotations.setters"},
		"no right in mode observe": {admission(coexistence.Admission{Exists: true,
			Missing: both[:1]}), check, doctor.Note, "launcherlabels.mooring.dev",
			"in mode enforce the API server would refuse all launchers", "annotations.setters"},
		"no policies": {admission(coexistence.Admission{}), check, doctor.OK, "no admission policy",
			"", ""},
		"unread": {func(f *coexistence.Facts) { f.AdmissionErr = denied() }, check, doctor.Unknown,
			"forbidden", "not known", "subjectaccessreviews"},
		"other account": {func(f *coexistence.Facts) {
			f.Pods = []corev1.Pod{podOf("virt-controller", "mine", "control-1")}
		}, check, doctor.Problem, "runs as system:serviceaccount:kubevirt:mine",
			"refuses them in reserved quota", "spec.customizeComponents"},
	} {
		t.Run(name, r.run)
	}
}

func TestNodes(t *testing.T) {
	const check = "kubevirt-nodes"
	for name, r := range map[string]row{
		"one without an agent": {handlers("worker-1", "worker-3", "worker-3"), check,
			doctor.Problem, "no agent on 1 of 2 nodes with virt-handler: worker-3",
			"without their limits", "nodePlacement"},
		"many without an agent": {handlers("a", "b", "c", "d", "e", "f", "g"), check,
			doctor.Problem, "7 of 7 nodes with virt-handler: a, b, c, d, e and 2 more", "", ""},
		"no virt-handler yet": {handlers(""), check, doctor.OK, "0 nodes", "", ""},
		"unread": {func(f *coexistence.Facts) { f.PodsErr = denied() }, check, doctor.Unknown,
			"forbidden", "not known", "pods in namespace kubevirt"},
	} {
		t.Run(name, r.run)
	}
}

func TestPlugin(t *testing.T) {
	const check = "kubevirt-plugin"
	with := func(gates ...string) change {
		return func(f *coexistence.Facts) {
			f.Plugin = true
			f.Objects[0].Spec.Configuration.DeveloperConfiguration.FeatureGates = gates
		}
	}
	for name, r := range map[string]row{
		"none": {func(*coexistence.Facts) {}, check, doctor.OK, "no Plugin", "", ""},
		"gate": {with("Sidecar", "Plugins"), check, doctor.OK, "feature gate Plugins",
			"calls the agent", ""},
		"no gate": {with("Sidecar"), check, doctor.Problem, "spec.configuration." +
			"developerConfiguration.featureGates lacks Plugins", "does not call the agent",
			"kubevirt.plugin.enabled=false"},
		"no developerConfiguration": {func(f *coexistence.Facts) {
			f.Plugin = true
			f.Objects[0].Spec.Configuration.DeveloperConfiguration = nil
		}, check, doctor.Problem, "lacks Plugins", "", ""},
		"unread": {func(f *coexistence.Facts) { f.PluginErr = denied() }, check, doctor.Unknown,
			"forbidden", "not known", "plugins.plugin.kubevirt.io"},
	} {
		t.Run(name, r.run)
	}
}

func TestHeadroom(t *testing.T) {
	const check = "kubevirt-headroom"
	for name, r := range map[string]row{
		"stage": {stage(), check, doctor.Note, "spec.configuration.vmRolloutStrategy: Stage",
			"Mooring can make none larger", "feature gate Sidecar"},
		"stage with the gate": {stage("Sidecar"), check, doctor.Note, "Stage", "only VMs with a " +
			"headroom hook sidecar", "LiveUpdate"},
		"ratio of the default": {live(kubevirtv1.LiveUpdateConfiguration{}), check, doctor.OK,
			"LiveUpdate", "", ""},
		"ratio 1": {live(kubevirtv1.LiveUpdateConfiguration{MaxHotplugRatio: 1}), check,
			doctor.Note, "spec.configuration.liveUpdateConfiguration.maxHotplugRatio: 1",
			"cannot grow in memory; VMs without cpu.maxSockets cannot grow in vCPUs", "raise it"},
		"ratio 1 and maxima": {live(kubevirtv1.LiveUpdateConfiguration{MaxHotplugRatio: 1,
			MaxGuest: quantity("64Gi"), MaxCpuSockets: new(uint32(8))}), check, doctor.Note,
			"maxGuest: 64Gi", "memory lock of this size", "memlock.max"},
		"maxGuest off the grid": {live(kubevirtv1.LiveUpdateConfiguration{
			MaxGuest: quantity("65G")}), check, doctor.Note, "maxGuest: 65G", "multiple of 2Mi",
			"multiple of 2Mi"},
		"one socket": {live(kubevirtv1.LiveUpdateConfiguration{MaxCpuSockets: new(uint32(1))}),
			check, doctor.Note, "maxCpuSockets: 1", "cannot grow in vCPUs", "cpu.maxSockets"},
	} {
		t.Run(name, r.run)
	}
	f := facts(t, "v1.5.0")
	for _, got := range coexistence.Examine(f) {
		if got.Check == check && got.Status != doctor.Unknown {
			t.Errorf("KubeVirt 1.5.0: %+v", got)
		}
	}
}

func TestSettings(t *testing.T) {
	for name, r := range map[string]row{
		"overcommit of 1.6.3": {overcommit(150, "v1.6.3"), "kubevirt-overcommit", doctor.Problem,
			"spec.configuration.developerConfiguration.memoryOvercommit: 150", "do not start",
			"update KubeVirt"},
		"overcommit of 1.6.4": {overcommit(150, "v1.6.4"), "kubevirt-overcommit", doctor.OK, "150",
			"", ""},
		"undercommit of 1.6.3": {overcommit(90, "v1.6.3"), "kubevirt-overcommit", doctor.OK, "90",
			"", ""},
		"plugin with memory": {plugin("500Mi"), "kubevirt-bindings", doctor.Note,
			"spec.configuration.network.binding.wide.computeResourceOverhead.requests.memory: " +
				"500Mi", "grows by it", "annotations"},
		"plugin without memory": {plugin("0"), "kubevirt-bindings", doctor.OK, "", "", ""},
		"RuntimeClass": {configure(func(c *kubevirtv1.KubeVirtConfiguration) {
			c.DefaultRuntimeClass = "tuned"
		}), "kubevirt-runtime-class", doctor.Note, "defaultRuntimeClass: tuned", "leaves it out",
			"quotas"},
	} {
		t.Run(name, r.run)
	}
}
