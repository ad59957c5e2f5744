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

// TestPlugin starts VMs after virt-handler has lowered the limit of virtqemud. With the plugin API,
// the agent raises it before the VM starts, and without the agent the VM waits.
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
	c.checkHookCalls(t, vmi, nodehook.PreVMStart)
	c.startWithoutAgent(t)
}

// TestPluginMigration moves a VM. On the target virt-handler lowers the limit before QEMU's start
// and after it, and the hook corrects QEMU in the end.
func TestPluginMigration(t *testing.T) {
	c := startTwoNodes(t)
	c.requirePluginAPI(t)
	t.Cleanup(func() { c.upgrade(context.WithoutCancel(t.Context()), t) })
	c.upgrade(t.Context(), t, pluginFlag)
	vmi := newLoweredVMI("hooked-moving")
	vmi.Spec.NodeSelector = nil
	c.run(t, vmi)
	source := vmi.Status.NodeName
	c.awaitMigration(t, c.migrate(t, vmi), kubevirtv1.MigrationSucceeded)
	c.awaitMoved(t, vmi, source)
	c.checkHookCalls(t, vmi, nodehook.PostMigrationTarget)
	c.checkVirtqemud(t, vmi)
	target := c.on(t, vmi.Status.NodeName)
	if got, granted := target.lockLimit(t, target.qemu(t, vmi)), c.granted(t, vmi); got < granted {
		t.Errorf("QEMU may lock %d bytes on the target, want Mooring's %d", got, granted)
	}
}

// startWithoutAgent starts VMs while no agent answers. The annotated one starts when the agent is
// back.
func (c *cluster) startWithoutAgent(t *testing.T) {
	t.Helper()
	c.upgrade(t.Context(), t, pluginFlag, "--set=agent.nodeSelector.absent=yes")
	c.awaitNoAgent(t)
	waiting := newLoweredVMI("waiting")
	c.create(t, waiting)
	c.awaitEventWith(t, waiting.Name, "node hook PreVMStart from plugin mooring failed")
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

// newLoweredVMI is a VM without a device. virt-handler sets virtqemud to KubeVirt's formula, and
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

// granted is Mooring's limit of a VM's launcher in bytes.
func (c *cluster) granted(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) int64 {
	t.Helper()
	given, err := resource.ParseQuantity(c.tied(t, vmi).Settings[0].Given)
	if err != nil {
		t.Fatal(err)
	}
	return given.Value()
}

// checkVirtqemud expects a VM's virtqemud to have the limit of Mooring.
func (c *cluster) checkVirtqemud(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	node, granted := c.on(t, vmi.Status.NodeName), c.granted(t, vmi)
	if got := node.lockLimit(t, node.virtqemud(t, vmi)); got < granted {
		t.Errorf("virtqemud of %s may lock %d bytes, want Mooring's %d", vmi.Name, got, granted)
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

func (c *cluster) agents(ctx context.Context) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := c.List(ctx, pods, client.InNamespace(system),
		client.MatchingLabels{"app.kubernetes.io/component": "agent"})
	return pods.Items, err
}

// checkHookCalls expects the agent on a VM's node to have served a hook.
func (c *cluster) checkHookCalls(
	t *testing.T, vmi *kubevirtv1.VirtualMachineInstance, hook string,
) {
	t.Helper()
	n := c.hookCalls(t, vmi.Status.NodeName, hook)
	t.Logf("%s was served %d times", hook, n)
	if n == 0 {
		t.Errorf("virt-handler has not called %s", hook)
	}
}

// hookCalls is a node's count of served calls of a hook.
func (c *cluster) hookCalls(t *testing.T, node, hook string) int {
	t.Helper()
	pods, err := c.agents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName != node })
	if len(pods) != 1 {
		t.Fatalf("%d agents on node %s, want 1", len(pods), node)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+pods[0].Status.PodIP+":9808/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	inNode := http.Client{Transport: &http.Transport{DialContext: c.on(t, node).node.Dial}}
	response, err := inNode.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	series := fmt.Sprintf("mooring_node_hooks_total{hook=%q,status=\"ok\"} ", hook)
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
