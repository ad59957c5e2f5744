package deploy

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/agent/nodehook"
	"github.com/mooring-vm/mooring/api"
)

// withPlugin are the values for KubeVirt's plugin API.
func withPlugin(args ...string) []string {
	return append([]string{"--set=kubevirt.plugin.enabled=true",
		"--api-versions=plugin.kubevirt.io/v1alpha1/Plugin"}, args...)
}

// plugin returns the chart's Plugin as KubeVirt reads it.
func plugin(t *testing.T, args ...string) *pluginv1alpha1.Plugin {
	t.Helper()
	text, err := json.Marshal(decode(t, render(t, withPlugin(args...)...))["Plugin mooring"])
	if err != nil {
		t.Fatal(err)
	}
	p := &pluginv1alpha1.Plugin{}
	if err := yaml.UnmarshalStrict(text, p); err != nil || len(p.Spec.NodeHooks) == 0 {
		t.Fatalf("%v: %s", err, text)
	}
	return p
}

// By default the chart has neither the alpha object nor the socket.
func TestNoPluginByDefault(t *testing.T) {
	if text := render(t); strings.Contains(text, "Plugin") || strings.Contains(text, "node-hook") {
		t.Error("the manifest has a Plugin or its socket")
	}
}

// The agent listens where virt-handler connects, in a directory of the node.
func TestPluginSocket(t *testing.T) {
	p := plugin(t)
	set := &appsv1.DaemonSet{}
	object := decode(t, render(t, withPlugin()...))["DaemonSet mooring-agent"]
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object,
		set); err != nil {
		t.Fatal(err)
	}
	pod := set.Spec.Template.Spec
	agent := pod.Containers[0]
	for _, hook := range p.Spec.NodeHooks {
		if flag := "--node-hook-socket=" + hook.Socket; !slices.Contains(agent.Args, flag) {
			t.Errorf("the agent's flags are %v, want %s", agent.Args, flag)
		}
		dir := filepath.Dir(hook.Socket)
		mount := slices.IndexFunc(agent.VolumeMounts, func(m corev1.VolumeMount) bool {
			return m.MountPath == dir && !m.ReadOnly
		})
		if mount < 0 {
			t.Fatalf("the agent has no mount of %s", dir)
		}
		volume := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool {
			return v.Name == agent.VolumeMounts[mount].Name
		})
		if at := pod.Volumes[volume].HostPath; at == nil || at.Path != dir {
			t.Errorf("the volume of %s is %+v", dir, at)
		}
	}
}

// TestPluginHooks expects each hook to have a strategy of its own, because KubeVirt takes Fail for
// an empty one. Two conditions divide all VMs. A third hook has none: an error in a condition fails
// the VM with any strategy.
func TestPluginHooks(t *testing.T) {
	const fail, ignore = pluginv1alpha1.FailureStrategyFail, pluginv1alpha1.FailureStrategyIgnore
	for name, c := range map[string]struct {
		args []string
		want pluginv1alpha1.FailureStrategy // for annotated VMs
	}{
		"enforce": {enforce(), fail},
		"ignore":  {append(enforce(), "--set=kubevirt.plugin.failureStrategy=Ignore"), ignore},
		"observe": {nil, ignore},
	} {
		hooks := plugin(t, c.args...).Spec.NodeHooks
		var all []string
		for i, hook := range hooks {
			if hook.Timeout == nil || hook.Timeout.Duration != 10*time.Second {
				t.Errorf("%s: hook %d has time-out %v", name, i, hook.Timeout)
			}
			for _, point := range hook.PermittedHooks {
				all = append(all, string(point)+" "+string(hook.FailureStrategy))
			}
		}
		want := []string{nodehook.PreVMStart + " " + string(c.want),
			nodehook.PreVMStart + " " + string(ignore),
			nodehook.PostMigrationTarget + " " + string(ignore)}
		if !slices.Equal(all, want) {
			t.Errorf("%s: hooks %v, want %v", name, all, want)
		}
		annotated := hooks[0].Condition
		if hooks[1].Condition != "!"+annotated || hooks[2].Condition != "" {
			t.Errorf("%s: conditions %q, %q, %q", name, annotated, hooks[1].Condition,
				hooks[2].Condition)
		}
		_, suffix, _ := strings.Cut(api.RequiresLockKey, ".")
		for _, want := range []string{`endsWith(".` + suffix + `")`,
			`contains(".` + suffix + `/")`} {
			if !strings.Contains(annotated, want) {
				t.Errorf("%s: condition %q lacks %s", name, annotated, want)
			}
		}
	}
}
