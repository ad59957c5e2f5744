package kubevirtnode

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/api/plugin"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/agent/nodehook"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// pluginFlag switches on the chart's part for KubeVirt's plugin API.
const pluginFlag = "--set=kubevirt.plugin.enabled=true"

// TestPlugin starts VMs for which virt-handler lowers virtqemud's limit. With the plugin API, the
// agent raises it before the VM starts, and without the agent such a VM waits.
func TestPlugin(t *testing.T) {
	c := start(t)
	c.requirePluginAPI(t)
	c.requireMooring(t)
	without := newLoweredVMI("unhooked")
	c.run(t, without)
	if c.repairedBeforeStart(t, without) {
		t.Error("without the hook the agent has repaired a limit before QEMU's start")
	}

	t.Cleanup(func() { c.upgrade(context.WithoutCancel(t.Context()), t) })
	c.upgrade(t.Context(), t, pluginFlag)
	vmi := newLoweredVMI("hooked")
	c.run(t, vmi)
	if !c.repairedBeforeStart(t, vmi) {
		t.Error("with the hook the agent has repaired virtqemud only after QEMU's start")
	}
	c.checkVirtqemud(t, vmi)
	if n := c.hookCalls(t, nodehook.PreVMStart, "ok"); n == 0 {
		t.Error("virt-handler has not called the agent")
	} else {
		t.Logf("virt-handler has called %s %d times", nodehook.PreVMStart, n)
	}
	c.startWithoutAgent(t)
}

// startWithoutAgent starts VMs while no agent answers. The annotated one starts when the agent is
// back.
func (c *cluster) startWithoutAgent(t *testing.T) {
	t.Helper()
	c.upgrade(t.Context(), t, pluginFlag, "--set=agent.nodeSelector.absent=yes")
	eventually(t, "the agent to be gone", func(ctx context.Context) error {
		pods, err := c.agents(ctx)
		if err != nil || len(pods) > 0 {
			return fmt.Errorf("%d agents, or: %w", len(pods), err)
		}
		return nil
	})
	waiting := newLoweredVMI("waiting")
	if err := c.Create(t.Context(), waiting); err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if t.Failed() {
			c.describe(ctx, t, waiting)
		}
		if err := c.remove(ctx, waiting); err != nil {
			t.Error(err)
		}
	})
	c.awaitHookFailure(t, waiting)
	c.run(t, newVMI("unannotated", nil))
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(waiting), waiting); err != nil {
		t.Fatal(err)
	}
	pids, err := c.processes(t.Context(), qemuPattern(waiting))
	if err != nil || len(pids) > 0 || waiting.Status.Phase == kubevirtv1.Running {
		t.Errorf("without the agent %s is %s, with QEMU processes %v, %v", waiting.Name,
			waiting.Status.Phase, pids, err)
	}

	c.upgrade(t.Context(), t, pluginFlag)
	c.awaitPhase(t, waiting, kubevirtv1.Running)
	c.checkVirtqemud(t, waiting)
}

// newLoweredVMI is a VM without a device whose virtqemud gets KubeVirt's formula from virt-handler.
// Mooring grants 1Gi more.
func newLoweredVMI(name string) *kubevirtv1.VirtualMachineInstance {
	annotations := withLock()
	annotations["value.memlock.mooring.dev"] = "1Gi"
	vmi := newVMI(name, annotations)
	vmi.Spec.Domain.Memory.ReservedOverhead = &kubevirtv1.ReservedOverhead{
		MemLock: new(kubevirtv1.MemLockRequirement(kubevirtv1.MemLockRequired))}
	return vmi
}

// requirePluginAPI skips the test on a KubeVirt before 1.9.
func (c *cluster) requirePluginAPI(t *testing.T) {
	t.Helper()
	kind := schema.GroupKind{Group: plugin.GroupName, Kind: plugin.Kind}
	switch _, err := c.RESTMapper().RESTMapping(kind); {
	case meta.IsNoMatchError(err):
		t.Skipf("this KubeVirt has no %s: it needs 1.9, as of `make kubevirt KUBEVIRT=1.9`", kind)
	case err != nil:
		t.Fatal(err)
	}
}

// upgrade upgrades the chart with further values, and returns when its pods are.
func (c *cluster) upgrade(ctx context.Context, t *testing.T, args ...string) {
	t.Helper()
	all := slices.Concat([]string{"upgrade", "mooring", filepath.Join(top, "deploy/helm/mooring"),
		"--namespace=" + system}, values(), args, []string{"--wait", "--timeout=15m"})
	if err := helm(ctx, all...); err != nil {
		t.Fatal(err)
	}
}

// checkVirtqemud checks that a VM's virtqemud has the limit that Mooring grants.
func (c *cluster) checkVirtqemud(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	granted, err := resource.ParseQuantity(c.tied(t, vmi).Settings[0].Given)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.lockLimit(t, c.virtqemud(t, vmi)); got < granted.Value() {
		t.Errorf("virtqemud of %s may lock %d bytes, want Mooring's %d", vmi.Name, got,
			granted.Value())
	}
}

// repairedBeforeStart reports whether the agent repaired a limit of the launcher before it saw
// QEMU's start. Without a hook it finds the low limit of QEMU itself.
func (c *cluster) repairedBeforeStart(
	t *testing.T, vmi *kubevirtv1.VirtualMachineInstance,
) bool {
	t.Helper()
	pod := c.launcher(t, vmi).Name
	times := map[string]time.Time{}
	for _, reason := range []agentapi.Reason{agentapi.ReasonVMStarted,
		agentapi.ReasonLimitRepaired} {
		c.awaitEvent(t, pod, string(reason))
	}
	list := &corev1.EventList{}
	if err := c.List(t.Context(), list, client.InNamespace(namespace),
		client.MatchingFields{"involvedObject.name": pod}); err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if first, ok := times[e.Reason]; !ok || e.EventTime.Time.Before(first) {
			times[e.Reason] = e.EventTime.Time
		}
	}
	repaired := times[string(agentapi.ReasonLimitRepaired)]
	started := times[string(agentapi.ReasonVMStarted)]
	t.Logf("%s: repaired %s after QEMU's start", vmi.Name, repaired.Sub(started))
	return repaired.Before(started)
}

// awaitHookFailure waits for virt-handler's Event about an agent that does not answer.
func (c *cluster) awaitHookFailure(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	const text = "node hook PreVMStart from plugin mooring failed"
	eventually(t, "an Event with "+text, func(ctx context.Context) error {
		lines, err := c.events(ctx, vmi.Name)
		if err != nil || !strings.Contains(strings.Join(lines, "\n"), text) {
			return fmt.Errorf("Events are\n%s\nor: %w", strings.Join(lines, "\n"), err)
		}
		return nil
	})
}

func (c *cluster) agents(ctx context.Context) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := c.List(ctx, pods, client.InNamespace(system),
		client.MatchingLabels{"app.kubernetes.io/component": "agent"})
	return pods.Items, err
}

// hookCalls is the agent's count of calls of a hook with this result.
func (c *cluster) hookCalls(t *testing.T, hook, status string) int {
	t.Helper()
	pods, err := c.agents(t.Context())
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d agents, %v, want 1", len(pods), err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+pods[0].Status.PodIP+":9808/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	inNode := http.Client{Transport: &http.Transport{DialContext: c.node.Dial}}
	response, err := inNode.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	series := fmt.Sprintf("mooring_node_hooks_total{hook=%q,status=%q} ", hook, status)
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), series); ok {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("/metrics lacks %s", series)
	return 0
}
