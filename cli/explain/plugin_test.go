package explain

import (
	"errors"
	"strings"
	"testing"

	nri "github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/plugin"
	"github.com/mooring-vm/mooring/plugin/plugintest"
)

// newPlugin returns the agent's plugin, on a node with another launcher that holds node.Granted.
// The pod's service account is known unless node.AccountsUnknown is set.
func newPlugin(
	t *rapid.T, p *policy.Policy, pod *corev1.Pod, node Node,
) (*plugin.Plugin, *lifecycletest.Recorder) {
	recorder := &lifecycletest.Recorder{}
	config := plugintest.Config(p)
	config.Recorder, config.Controllers, config.NodeMemory = recorder, node.Controllers, node.Memory
	if node.Granted > 0 {
		granted := host.Limit(node.Granted)
		config.Registry.Put(registry.Launcher{
			Launcher: agentapi.Launcher{Pod: agentapi.PodRef{UID: "other"},
				State: agentapi.StateRunning}, Demand: &granted,
		})
	}
	if !node.AccountsUnknown {
		config.Accounts = plugintest.Account(serviceAccount(pod))
	}
	made, err := plugin.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return made, recorder
}

func memory(quantity string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(quantity)}
}

// drawPod draws valid and invalid requests.
func drawPod(t *rapid.T) *corev1.Pod {
	pod := launcherPod(map[string]string{})
	pod.UID = "uid"
	pod.Namespace = rapid.SampledFrom([]string{"vms", "tenant-a", "nowhere"}).Draw(t, "namespace")
	pod.Spec.ServiceAccountName = rapid.SampledFrom([]string{"", "vm-1"}).Draw(t, "account")
	if rapid.Bool().Draw(t, "no labels") {
		pod.Labels = nil
	}
	if rapid.Bool().Draw(t, "pod limit") {
		pod.Spec.Resources = &corev1.ResourceRequirements{Limits: memory("3Gi")}
		pod.Spec.Resources.Limits[corev1.ResourceCPU] = drawCPUs(t)
	}
	if rapid.Bool().Draw(t, "requests") {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: drawCPUs(t)}
	}
	if rapid.Bool().Draw(t, "limit") {
		pod.Spec.Containers[0].Resources.Limits = memory(
			rapid.SampledFrom([]string{"0", "2Gi", "64Gi"}).Draw(t, "memory"))
	}
	keys := []string{
		api.LauncherKey, api.RequiresLockKey, api.ValueKey, api.GuestMemoryKey, api.DevicesKey,
		"memory.high" + api.CgroupSuffix, "pids.max" + api.CgroupSuffix,
		"memory.max" + api.CgroupSuffix, "x" + api.Suffix,
		api.DomainKey, api.GracePeriodKey,
	}
	values := []string{"compute", "setup", "other", "true", "false", "4Gi", "15Gi", "unlimited",
		"vfio=1", "max", "100", "", "1e30", "vms-1", "30s"}
	for range rapid.IntRange(0, 6).Draw(t, "annotations") {
		pod.Annotations[rapid.SampledFrom(keys).Draw(t, "key")] = rapid.SampledFrom(values).Draw(t,
			"value")
	}
	if rapid.Bool().Draw(t, "requires a lock") {
		pod.Annotations[api.RequiresLockKey] = "true"
	}
	return pod
}

func drawCPUs(t *rapid.T) resource.Quantity {
	return resource.MustParse(rapid.SampledFrom([]string{"0", "500m", "1500m", "2", "16"}).Draw(t,
		"CPUs"))
}

// For every container the explanation equals the plugin's answer to the runtime: refusal, limit,
// cgroup files and Events.
func TestExplainsThePlugin(t *testing.T) {
	policies := []*policy.Policy{parsePolicy(t, policy.Enforce), parsePolicy(t, policy.Observe)}
	rapid.Check(t, func(t *rapid.T) {
		p, pod := rapid.SampledFrom(policies).Draw(t, "policy"), drawPod(t)
		node := Node{
			Memory: rapid.SampledFrom([]int64{0, 1 << 30, 64 << 30}).Draw(t,
				"node memory"),
			Controllers: rapid.SampledFrom([][]string{nil, {"memory"},
				{"memory", "pids"}}).Draw(t, "controllers"),
			Granted:         rapid.SampledFrom([]int64{0, 30 << 30, 1 << 40}).Draw(t, "granted"),
			AccountsUnknown: rapid.Bool().Draw(t, "accounts unknown"),
		}
		e := Explain(p, pod, node)
		for i, c := range containersOf(pod) {
			agent, recorder := newPlugin(t, p, pod, node)
			sandbox, ctr := asRuntime(pod, c)
			adjustment, _, err := agent.CreateContainer(t.Context(), sandbox, ctr)
			compare(t, e.Containers[i], adjustment, err, recorder.Events())
		}
	})
}

// The plugin allows a running VM exactly the memory lock that Explain predicts for a new
// launcher of the same pod, and refuses it for the same reason.
func TestExplainsALiveRaise(t *testing.T) {
	p := parsePolicy(t, policy.Enforce)
	rapid.Check(t, func(t *rapid.T) {
		pod := drawLockPod(t)
		node := Node{
			Memory: rapid.SampledFrom([]int64{0, 1 << 30, 64 << 30}).Draw(t,
				"node memory"),
			Granted:         rapid.SampledFrom([]int64{0, 30 << 30, 1 << 40}).Draw(t, "granted"),
			AccountsUnknown: rapid.Bool().Draw(t, "accounts unknown"),
		}
		explained := Explain(p, pod, node).Containers[1]
		lock := lockOf(t, explained)

		running := pod.DeepCopy()
		running.Annotations = map[string]string{api.LauncherKey: "compute"}
		agent, _ := newPlugin(t, p, running, node)
		sandbox, ctr := asRuntime(running, containersOf(running)[1])
		if err := agent.PostStartContainer(t.Context(), sandbox, ctr); err != nil {
			t.Fatal(err)
		}
		err := agent.GrantLock(ctr.GetId(), host.Process{PID: 1}, lock)
		if (err == nil) != (explained.Outcome == Given) {
			t.Fatalf("explanation %s: %q, answer to the raise: %v", explained.Outcome,
				explained.Refusal, err)
		}
		if err != nil && !strings.Contains(explained.Refusal, errors.Unwrap(err).Error()) {
			t.Fatalf("explanation\n%s\nrefusal of the raise\n%v", explained.Refusal, err)
		}
	})
}

// drawLockPod draws a pod with a memory lock as its only request.
func drawLockPod(t *rapid.T) *corev1.Pod {
	pod := launcherPod(map[string]string{api.RequiresLockKey: "true",
		decide.KubeVirtOverheadKey: "0"})
	pod.UID = "uid"
	pod.Namespace = rapid.SampledFrom([]string{"vms", "tenant-a", "nowhere"}).Draw(t, "namespace")
	pod.Spec.ServiceAccountName = rapid.SampledFrom([]string{"", "vm-1"}).Draw(t, "account")
	if rapid.Bool().Draw(t, "limit") {
		pod.Spec.Containers[0].Resources.Limits = memory(
			rapid.SampledFrom([]string{"2Gi", "64Gi"}).Draw(t, "memory"))
	}
	if quantity := rapid.SampledFrom([]string{"1Gi", "15Gi", "17Gi", api.Unlimited}).Draw(t,
		"lock"); quantity == api.Unlimited {
		pod.Annotations[api.ValueKey] = quantity
	} else {
		pod.Annotations[api.GuestMemoryKey] = quantity
	}
	return pod
}

// lockOf returns the requested memory lock of an explained container.
func lockOf(t *rapid.T, c Container) host.Limit {
	asked := c.Settings[0].Requested
	if asked == api.Unlimited {
		return host.Unlimited
	}
	bytes, err := api.ParseBytes(asked)
	if err != nil {
		t.Fatal(err)
	}
	return host.Limit(bytes)
}

// asRuntime returns the pod as kubelet and the runtime report it. It computes the limits a second
// time on purpose.
func asRuntime(pod *corev1.Pod, c container) (*nri.PodSandbox, *nri.Container) {
	limit := c.Resources.Limits.Memory()
	cpu := c.Resources.Limits.Cpu()
	if pod.Spec.Resources != nil && limit.IsZero() {
		limit = pod.Spec.Resources.Limits.Memory()
	}
	if pod.Spec.Resources != nil && cpu.IsZero() {
		cpu = pod.Spec.Resources.Limits.Cpu()
	}
	sandbox := &nri.PodSandbox{
		Id: "s", Name: pod.Name, Uid: string(pod.UID), Namespace: pod.Namespace, Labels: pod.Labels,
		Annotations: pod.Annotations,
	}
	return sandbox, &nri.Container{Id: "c", PodSandboxId: "s", Name: c.Name,
		Linux: &nri.LinuxContainer{
			Resources: &nri.LinuxResources{
				Memory: &nri.LinuxMemory{Limit: nri.Int64(limit.Value())},
				Cpu: &nri.LinuxCPU{
					Quota: nri.Int64(cpu.MilliValue() * 100), Period: nri.UInt64(100_000),
					Shares: nri.UInt64(
						uint64(max(2, c.Resources.Requests.Cpu().MilliValue()*1024/1000))),
				},
			},
		}}
}

func compare(
	t *rapid.T, c Container, answer *nri.ContainerAdjustment, err error, events []agentapi.Event,
) {
	if refused := err != nil; refused != (c.Outcome == Refused) || refused &&
		err.Error() != c.Refusal {
		t.Fatalf("explanation %s: %q, answer of the plugin: %v", c.Outcome, c.Refusal, err)
	}
	want := map[string]string{}
	for _, l := range answer.GetRlimits() {
		want[LimitsFile] = limitsLine(host.Rlimit{Soft: host.Limit(l.GetSoft()),
			Hard: host.Limit(l.GetHard())})
	}
	for file, value := range answer.GetLinux().GetResources().GetUnified() {
		want[file] = cgroupContent(api.CgroupSetting{File: file, Value: value})
	}
	got := map[string]string{}
	for _, k := range c.Kernel {
		got[k.File] = k.Content
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("content of kernel files (-plugin +explained)\n%s", diff)
	}
	var reported []Remark
	for _, event := range events {
		reported = append(reported, Remark{event.Type, event.Reason, event.Message})
	}
	if diff := cmp.Diff(reported, c.Remarks); diff != "" {
		t.Fatalf("events (-plugin +explained)\n%s", diff)
	}
	checkRules(t, c)
}

// checkRules checks that the last compared rule decides.
func checkRules(t *rapid.T, c Container) {
	var decided string
	for i, r := range c.Rules {
		if r.Decides && i != len(c.Rules)-1 {
			t.Fatalf("rules after the one that decides: %+v", c.Rules)
		}
		if r.Decides {
			decided = r.Name
		}
	}
	if decided != c.Rule {
		t.Fatalf("rule %q decided, and %+v are explained", c.Rule, c.Rules)
	}
}
