package kubernetes

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/mooring-vm/mooring/agent"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/internal/buildinfo"
)

const namespace = "mooring-system"

// decode reads every document of a manifest into its type. Unknown and duplicate fields are errors.
func decode(t *testing.T, file string) []runtime.Object {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme,
		apiextensionsv1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(content)))
	defer documents.Close()
	var objects []runtime.Object
	for {
		document := make([]byte, len(content))
		n, err := documents.Read(document)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		object, kind, err := decoder.Decode(document[:n], nil, nil)
		if err != nil {
			t.Fatalf("document %d (%v): %v", len(objects), kind, err)
		}
		objects = append(objects, object)
	}
}

// the returns the only object with this type and name in install.yaml.
func the[T metav1.Object](t *testing.T, name string) T {
	t.Helper()
	return theIn[T](t, "install.yaml", name)
}

func theIn[T metav1.Object](t *testing.T, file, name string) T {
	t.Helper()
	var found []T
	for _, object := range decode(t, file) {
		if typed, ok := object.(T); ok && typed.GetName() == name {
			found = append(found, typed)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T named %s, want 1", len(found), *new(T), name)
	}
	return found[0]
}

func TestObjects(t *testing.T) {
	want := []string{
		"Namespace /mooring-system",
		"PodDisruptionBudget mooring-system/mooring-controller",
		"ServiceAccount mooring-system/mooring-agent",
		"ServiceAccount mooring-system/mooring-controller",
		"ServiceAccount mooring-system/mooring-fence",
		"Secret mooring-system/mooring-webhook-certificates",
		"ConfigMap mooring-system/mooring-agent",
		"CustomResourceDefinition /migrationreservations.mooring.dev",
		"CustomResourceDefinition /nodepolicies.mooring.dev",
		"CustomResourceDefinition /nodestates.mooring.dev",
		"ClusterRole /mooring-agent",
		"ClusterRole /mooring-annotations",
		"ClusterRole /mooring-namespace-annotations",
		"ClusterRole /mooring-launchers",
		"ClusterRole /mooring-controller",
		"ClusterRole /mooring-view",
		"ClusterRoleBinding /mooring-agent",
		"ClusterRoleBinding /mooring-annotations",
		"ClusterRoleBinding /mooring-launchers",
		"ClusterRoleBinding /mooring-controller",
		"Role mooring-system/mooring-controller",
		"RoleBinding mooring-system/mooring-controller",
		"Service mooring-system/mooring-controller",
		"DaemonSet mooring-system/mooring-agent",
		"DaemonSet mooring-system/mooring-fence",
		"Deployment mooring-system/mooring-controller",
		"MutatingWebhookConfiguration /mooring-launcher",
		"ValidatingWebhookConfiguration /mooring-guard",
		"ValidatingAdmissionPolicy /mooring-annotations",
		"ValidatingAdmissionPolicy /mooring-launchers",
		"ValidatingAdmissionPolicy /mooring-quota-annotations",
		"ValidatingAdmissionPolicy /mooring-namespace-annotations",
		"ValidatingAdmissionPolicy /mooring-vm-annotations",
		"ValidatingAdmissionPolicy /mooring-controller-namespaces",
		"ValidatingAdmissionPolicy /mooring-controller-probes",
		"ValidatingAdmissionPolicy /mooring-nodestates",
		"ValidatingAdmissionPolicyBinding /mooring-annotations",
		"ValidatingAdmissionPolicyBinding /mooring-launchers",
		"ValidatingAdmissionPolicyBinding /mooring-namespace-annotations",
		"ValidatingAdmissionPolicyBinding /mooring-quota-annotations",
		"ValidatingAdmissionPolicyBinding /mooring-vm-annotations",
		"ValidatingAdmissionPolicyBinding /mooring-controller-namespaces",
		"ValidatingAdmissionPolicyBinding /mooring-controller-probes",
		"ValidatingAdmissionPolicyBinding /mooring-nodestates",
	}
	if diff := cmp.Diff(want, objects(t, "install.yaml")); diff != "" {
		t.Errorf("install.yaml (-want +got):\n%s", diff)
	}
}

// objects lists the objects of a manifest as KIND NAMESPACE/NAME.
func objects(t *testing.T, file string) (all []string) {
	t.Helper()
	for _, object := range decode(t, file) {
		meta := object.(metav1.Object)
		all = append(all, object.GetObjectKind().GroupVersionKind().Kind+" "+meta.GetNamespace()+
			"/"+meta.GetName())
	}
	return all
}

func TestPolicy(t *testing.T) {
	text := the[*corev1.ConfigMap](t, "mooring-agent").Data["policy.yaml"]
	p, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if p.Mode != policy.Observe {
		t.Errorf("mode %q, want %q: a first install must only report", p.Mode, policy.Observe)
	}
	shipped, err := os.ReadFile("../policy/observe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// The manifest lacks the newline at the end.
	if diff := cmp.Diff(strings.TrimSpace(string(shipped)), strings.TrimSpace(text)); diff != "" {
		t.Errorf("the policy differs from deploy/policy/observe.yaml (-shipped +here):\n%s", diff)
	}
}

func TestRights(t *testing.T) {
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"},
			Verbs: []string{"create", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"mooring.dev"}, Resources: []string{"nodepolicies"},
			Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"mooring.dev"}, Resources: []string{"nodestates"},
			Verbs: []string{"create", "get"}},
		{APIGroups: []string{"mooring.dev"}, Resources: []string{"nodestates/status"},
			Verbs: []string{"update"}},
	}
	if diff := cmp.Diff(want, the[*rbacv1.ClusterRole](t, "mooring-agent").Rules); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
	binding := the[*rbacv1.ClusterRoleBinding](t, "mooring-agent")
	subject := rbacv1.Subject{Kind: "ServiceAccount", Name: "mooring-agent", Namespace: namespace}
	if diff := cmp.Diff([]rbacv1.Subject{subject}, binding.Subjects); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
	if account := podSpec(t).ServiceAccountName; account != subject.Name {
		t.Errorf("the pods use service account %q, want %q", account, subject.Name)
	}
	if fence := fenceSpec(t); fence.ServiceAccountName == subject.Name ||
		*fence.AutomountServiceAccountToken {
		t.Error("the fence has access to the API server")
	}
}

// daemonSets returns the DaemonSets of the agent and the fence.
func daemonSets(t *testing.T) (agent, fence *appsv1.DaemonSet) {
	t.Helper()
	for _, object := range decode(t, "install.yaml") {
		set, ok := object.(*appsv1.DaemonSet)
		switch {
		case ok && set.Name == "mooring-agent":
			agent = set
		case ok && set.Name == "mooring-fence":
			fence = set
		}
	}
	if agent == nil || fence == nil {
		t.Fatal("want a DaemonSet of the agent, and one of the fence")
	}
	return agent, fence
}

func podSpec(t *testing.T) corev1.PodSpec {
	t.Helper()
	agent, _ := daemonSets(t)
	return agent.Spec.Template.Spec
}

func fenceSpec(t *testing.T) corev1.PodSpec {
	t.Helper()
	_, fence := daemonSets(t)
	return fence.Spec.Template.Spec
}

func TestDaemonSetsFollowTheConventions(t *testing.T) {
	agent, fence := daemonSets(t)
	checkConventions(t, agent)
	checkConventions(t, fence)
	if cmp.Equal(agent.Spec.Selector, fence.Spec.Selector) {
		t.Error("the selectors of the agent and the fence are the same: each would delete the " +
			"other's pods")
	}
}

func checkConventions(t *testing.T, set *appsv1.DaemonSet) {
	t.Helper()
	labels := set.Spec.Template.Labels
	for key, value := range set.Spec.Selector.MatchLabels {
		if labels[key] != value {
			t.Errorf("the selector wants %s=%s, the pods have %q", key, value, labels[key])
		}
	}
	spec := set.Spec.Template.Spec
	if spec.PriorityClassName != "system-node-critical" {
		t.Errorf("priority class %q", spec.PriorityClassName)
	}
	if diff := cmp.Diff([]corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		spec.Tolerations); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
	if !spec.HostPID || spec.HostNetwork || spec.HostIPC {
		t.Errorf("hostPID %t, hostNetwork %t, hostIPC %t; want the first only", spec.HostPID,
			spec.HostNetwork, spec.HostIPC)
	}
}

func TestAgentIsNotPrivileged(t *testing.T) {
	no, yes := false, true
	for unit, spec := range map[string]corev1.PodSpec{"mooring-agent.service": podSpec(t),
		"mooring-fence.service": fenceSpec(t)} {
		want := &corev1.SecurityContext{
			Privileged: &no, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined},
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"},
				Add: unitCapabilities(t, unit)},
		}
		if diff := cmp.Diff(want, spec.Containers[0].SecurityContext); diff != "" {
			t.Errorf("security context (-with the capabilities of %s +here):\n%s", unit, diff)
		}
	}
}

// unitCapabilities returns the capabilities of a systemd unit.
func unitCapabilities(t *testing.T, name string) []corev1.Capability {
	t.Helper()
	unit, err := os.ReadFile("../systemd/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(unit)) {
		if list, ok := strings.CutPrefix(line, "CapabilityBoundingSet="); ok {
			var all []corev1.Capability
			for _, name := range strings.Fields(list) {
				all = append(all, corev1.Capability(strings.TrimPrefix(name, "CAP_")))
			}
			return all
		}
	}
	t.Fatal("the systemd unit has no CapabilityBoundingSet")
	return nil
}

// TestCommandLines compares the agent's flags with the program and the volumes.
func TestCommandLines(t *testing.T) {
	spec := podSpec(t)
	defaults := agent.DefaultConfig()
	command := agent.Command(buildinfo.Info{}, io.Discard)
	args := spec.Containers[0].Args
	if err := command.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	policyFile, hook := command.Flag("policy").Value.String(), command.Flag("hook").Value.String()
	checkMounted(t, spec.Containers[0], policyFile, hook, defaults.NRISocket, defaults.Root,
		defaults.Cgroup, defaults.BPFDir)
	port := spec.Containers[0].Ports[0]
	if listen := command.Flag("listen").Value.String(); listen != ":9808" ||
		port.ContainerPort != 9808 {
		t.Errorf("listens on %q, and the port is %d", listen, port.ContainerPort)
	}
	for _, probe := range []*corev1.Probe{spec.Containers[0].StartupProbe,
		spec.Containers[0].LivenessProbe, spec.Containers[0].ReadinessProbe} {
		if probe.HTTPGet.Port.StrVal != port.Name {
			t.Errorf("probe of port %q, want %q", probe.HTTPGet.Port.StrVal, port.Name)
		}
	}
	prepare, rest, err := command.Find(spec.InitContainers[0].Args)
	if err != nil || prepare.Name() != "prepare" {
		t.Fatalf("init container runs %q, %v", prepare.Name(), err)
	}
	if err := prepare.ParseFlags(rest); err != nil {
		t.Fatal(err)
	}
	if root, want := prepare.Flag("root").Value.String(), "/host"+defaults.Root; root != want {
		t.Errorf("prepare mounts at %q, want %q", root, want)
	}
	checkBPFFS(t, spec, prepare.Flag("bpffs").Value.String())
}

// checkBPFFS wants the path at which prepare mounts the bpf file system to be the node's, and its
// mount to reach the node.
func checkBPFFS(t *testing.T, spec corev1.PodSpec, path string) {
	t.Helper()
	isBPF := func(v corev1.Volume) bool { return v.Name == "bpf" }
	volume := spec.Volumes[slices.IndexFunc(spec.Volumes, isBPF)]
	if volume.HostPath.Path != filepath.Dir(agent.DefaultConfig().BPFDir) {
		t.Errorf("the node's directory is %s", volume.HostPath.Path)
	}
	for _, mount := range spec.InitContainers[0].VolumeMounts {
		if mount.Name == volume.Name && mount.MountPath == path && mount.MountPropagation != nil &&
			*mount.MountPropagation == corev1.MountPropagationBidirectional {
			return
		}
	}
	t.Errorf("no mount at %s reaches the node", path)
}

// TestSlowStartIsNoFailure wants five minutes for a start before the liveness probe counts.
func TestSlowStartIsNoFailure(t *testing.T) {
	probe := podSpec(t).Containers[0].StartupProbe
	if probe == nil || probe.PeriodSeconds*probe.FailureThreshold < 300 {
		t.Errorf("startup probe %v", probe)
	}
}

func TestFenceCommandLine(t *testing.T) {
	container, defaults := fenceSpec(t).Containers[0], agent.DefaultConfig()
	fence, rest, err := agent.Command(buildinfo.Info{}, io.Discard).Find(container.Args)
	if err != nil || fence.Name() != "fence" {
		t.Fatalf("it runs %q, %v", fence.Name(), err)
	}
	if err := fence.ParseFlags(rest); err != nil {
		t.Fatal(err)
	}
	checkMounted(t, container, fence.Flag("policy").Value.String(), defaults.Root, defaults.Cgroup,
		defaults.BPFDir)
	if agent := podSpec(t).Containers[0]; container.Image != agent.Image {
		t.Errorf("the image is %s, that of the agent %s", container.Image, agent.Image)
	}
}

// checkMounted wants these paths of the node in the container, and the policy's default paths of
// libvirt.
func checkMounted(t *testing.T, container corev1.Container, paths ...string) {
	t.Helper()
	p, err := policy.Parse([]byte("apiVersion: mooring.dev/v1alpha1\nkind: NodePolicy\nmode: " +
		"observe\nlifecycle: {libvirt: {}}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(paths, p.Lifecycle.Libvirt.Records, p.Lifecycle.Libvirt.Socket) {
		if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
			return path == m.MountPath || strings.HasPrefix(path, m.MountPath+"/")
		}) {
			t.Errorf("container %s has no mount for %s", container.Name, path)
		}
	}
}
