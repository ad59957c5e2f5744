package kubernetes

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/internal/agent"
	"github.com/mooring-vm/mooring/internal/buildinfo"
)

const namespace = "mooring-system"

// decode reads every document of install.yaml into its type. Unknown and
// duplicate fields are errors.
func decode(t *testing.T) []runtime.Object {
	t.Helper()
	content, err := os.ReadFile("install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
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

// the returns the only object of a type.
func the[T runtime.Object](t *testing.T) T {
	t.Helper()
	var found []T
	for _, object := range decode(t) {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T, want 1", len(found), *new(T))
	}
	return found[0]
}

func TestObjects(t *testing.T) {
	var got []string
	for _, object := range decode(t) {
		meta := object.(metav1.Object)
		got = append(got, object.GetObjectKind().GroupVersionKind().Kind+" "+meta.GetNamespace()+"/"+meta.GetName())
	}
	want := []string{
		"Namespace /mooring-system",
		"ServiceAccount mooring-system/mooring-agent",
		"ClusterRole /mooring-agent",
		"ClusterRoleBinding /mooring-agent",
		"ConfigMap mooring-system/mooring-agent",
		"DaemonSet mooring-system/mooring-agent",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestPolicy(t *testing.T) {
	text := the[*corev1.ConfigMap](t).Data["policy.yaml"]
	p, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if p.Mode != policy.Observe {
		t.Errorf("mode %q, want %q: a first install must change nothing", p.Mode, policy.Observe)
	}
	shipped, err := os.ReadFile("../policy/observe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// Where a document ends, so does its last line.
	if diff := cmp.Diff(strings.TrimSpace(string(shipped)), strings.TrimSpace(text)); diff != "" {
		t.Errorf("the policy differs from deploy/policy/observe.yaml (-shipped +here):\n%s", diff)
	}
}

func TestRights(t *testing.T) {
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}
	if diff := cmp.Diff(want, the[*rbacv1.ClusterRole](t).Rules); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
	binding := the[*rbacv1.ClusterRoleBinding](t)
	subject := rbacv1.Subject{Kind: "ServiceAccount", Name: the[*corev1.ServiceAccount](t).Name, Namespace: namespace}
	if diff := cmp.Diff([]rbacv1.Subject{subject}, binding.Subjects); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
	if account := podSpec(t).ServiceAccountName; account != subject.Name {
		t.Errorf("the pods use service account %q, want %q", account, subject.Name)
	}
}

func podSpec(t *testing.T) corev1.PodSpec {
	t.Helper()
	return the[*appsv1.DaemonSet](t).Spec.Template.Spec
}

func TestDaemonSetFollowsTheConventions(t *testing.T) {
	set := the[*appsv1.DaemonSet](t)
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
	if diff := cmp.Diff([]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, spec.Tolerations); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
	if !spec.HostPID || spec.HostNetwork || spec.HostIPC {
		t.Errorf("hostPID %t, hostNetwork %t, hostIPC %t; want the first only", spec.HostPID, spec.HostNetwork, spec.HostIPC)
	}
}

func TestAgentIsNotPrivileged(t *testing.T) {
	context := podSpec(t).Containers[0].SecurityContext
	if *context.Privileged || *context.AllowPrivilegeEscalation || !*context.ReadOnlyRootFilesystem {
		t.Errorf("security context %+v", context)
	}
	for i, unit := range []string{"mooring-agent.service", "mooring-fence.service"} {
		want := &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: unitCapabilities(t, unit)}
		if diff := cmp.Diff(want, podSpec(t).Containers[i].SecurityContext.Capabilities); diff != "" {
			t.Errorf("capabilities (-as in %s +here):\n%s", unit, diff)
		}
	}
}

// unitCapabilities returns the capabilities that a systemd unit leaves.
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

// TestCommandLines checks that the flags exist and fit the volumes.
func TestCommandLines(t *testing.T) {
	spec := podSpec(t)
	defaults := agent.DefaultConfig()
	command := agent.Command(buildinfo.Info{}, io.Discard)
	args := spec.Containers[0].Args
	if err := command.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	policyFile, hook := command.Flag("policy").Value.String(), command.Flag("hook").Value.String()
	for _, path := range []string{policyFile, hook, defaults.NRISocket, defaults.Root, defaults.Cgroup, defaults.BPFDir} {
		if !slices.ContainsFunc(spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
			return path == m.MountPath || strings.HasPrefix(path, m.MountPath+"/")
		}) {
			t.Errorf("nothing is mounted for %s", path)
		}
	}
	port := spec.Containers[0].Ports[0]
	if listen := command.Flag("listen").Value.String(); listen != ":9808" || port.ContainerPort != 9808 {
		t.Errorf("listens on %q, and the port is %d", listen, port.ContainerPort)
	}
	for _, probe := range []*corev1.Probe{spec.Containers[0].LivenessProbe, spec.Containers[0].ReadinessProbe} {
		if probe.HTTPGet.Port.StrVal != port.Name {
			t.Errorf("probe of port %q, want %q", probe.HTTPGet.Port.StrVal, port.Name)
		}
	}
	fence, rest, err := command.Find(spec.Containers[1].Args)
	if err != nil || fence.Name() != "fence" {
		t.Fatalf("the second container runs %q, %v", fence.Name(), err)
	}
	if err := fence.ParseFlags(rest); err != nil {
		t.Fatal(err)
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
}

// TestHook checks that the agent hands out what the init container has installed, by
// the path that it has on the node.
func TestHook(t *testing.T) {
	spec := podSpec(t)
	if err := agent.Command(buildinfo.Info{}, io.Discard).ParseFlags(spec.Containers[0].Args); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(spec.InitContainers, func(c corev1.Container) bool { return c.Name == "hook" })
	if at < 0 {
		t.Fatal("no init container installs the hook")
	}
	install := spec.InitContainers[at]
	if !slices.Contains(spec.Containers[0].Args, "--hook="+install.Args[len(install.Args)-1]) {
		t.Errorf("the init container runs %v, the agent %v", install.Args, spec.Containers[0].Args)
	}
	if *install.SecurityContext.Privileged || len(install.SecurityContext.Capabilities.Add) > 0 {
		t.Error("the init container of the hook has more rights than it needs")
	}
	volume := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == "hook" })
	for _, c := range []corev1.Container{install, spec.Containers[0]} {
		mount := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "hook" })
		if at, path := c.VolumeMounts[mount].MountPath, spec.Volumes[volume].HostPath.Path; at != path {
			t.Errorf("container %s has the node's %s at %s", c.Name, path, at)
		}
	}
}

// TestImageHasThePrograms checks that the Dockerfile copies what the manifest runs.
func TestImageHasThePrograms(t *testing.T) {
	dockerfile, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	spec := podSpec(t)
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		name, ok := strings.CutPrefix(c.Command[0], "/usr/local/bin/")
		if !ok || !strings.Contains(string(dockerfile), " bin/"+name+" ") {
			t.Errorf("container %s runs %s, which the image has not", c.Name, c.Command[0])
		}
	}
}

func TestVolumesExist(t *testing.T) {
	spec := podSpec(t)
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, mount := range container.VolumeMounts {
			if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
				t.Errorf("container %s mounts volume %q, which is not there", container.Name, mount.Name)
			}
		}
	}
	for _, volume := range spec.Volumes {
		if volume.ConfigMap != nil && volume.ConfigMap.Name != the[*corev1.ConfigMap](t).Name {
			t.Errorf("volume %s is of ConfigMap %q", volume.Name, volume.ConfigMap.Name)
		}
	}
}
