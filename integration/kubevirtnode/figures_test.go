package kubevirtnode

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/integration/bench/stats"
)

// settled is the time until a new agent is idle.
const settled = 30 * time.Second

// envFigures names the variable with the number of pairs for TestBootFigures.
const envFigures = "MOORING_FIGURES"

// figures returns the number of pairs, or skips the test: the figures take long.
func figures(t *testing.T) int {
	t.Helper()
	text := os.Getenv(envFigures)
	if text == "" {
		t.Skipf("measures for half an hour: set $%s to the number of pairs, such as 10", envFigures)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("$%s is %q, want a number of at least 1", envFigures, text)
	}
	return n
}

// TestBootFigures measures the boot of a VM with agent and fence on the node and without, in pairs
// of random order. The controller and its webhooks are always there. It logs the figures.
func TestBootFigures(t *testing.T) {
	pairs, c := figures(t), start(t)
	c.requireMooring(t)
	t.Cleanup(func() { c.switchAgent(t, true) })
	var with, without, cpu []float64
	boot := func(i int, agent bool) {
		c.switchAgent(t, agent)
		if !agent {
			without = append(without, c.boot(t, fmt.Sprint("boot-alone-", i)).Seconds())
			return
		}
		time.Sleep(settled) // a new agent still reads the node
		before, start := c.agentCPU(t), time.Now()
		with = append(with, c.boot(t, fmt.Sprint("boot-", i)).Seconds())
		spent, took := c.agentCPU(t)-before, time.Since(start)
		before = c.agentCPU(t)
		time.Sleep(took) // without a VM: what the agent spends anyway
		cpu = append(cpu, (spent-(c.agentCPU(t)-before)).Seconds()*1000)
	}
	for i := range pairs {
		first := rand.IntN(2) == 0
		boot(i, first)
		boot(i, !first)
	}
	r := stats.RatioOfMedians(with, without)
	t.Logf("boot: alone %+v s, with Mooring %+v s, ratio %.3f (%.3f to %.3f)",
		stats.Summarise(without), stats.Summarise(with), r.Value, r.Low, r.High)
	t.Logf("added CPU time of the agent for a boot and the VM's end: %+v ms", stats.Summarise(cpu))
}

// boot is the time from a VM's creation until KubeVirt reports it as running. The VM is removed.
func (c *cluster) boot(t *testing.T, name string) time.Duration {
	t.Helper()
	vmi, start := newVMI(name, withLock()), time.Now()
	if err := c.Create(t.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.remove(context.WithoutCancel(t.Context()), vmi); err != nil {
			t.Error(err)
		}
	}()
	for end := start.Add(patience); ; time.Sleep(100 * time.Millisecond) {
		c.get(t, vmi)
		if vmi.Status.Phase == kubevirtv1.Running {
			return time.Since(start)
		}
		if time.Now().After(end) {
			t.Fatalf("%s is %s", name, vmi.Status.Phase)
		}
	}
}

// switchAgent starts or ends the agent and its fence on all nodes.
func (c *cluster) switchAgent(t *testing.T, on bool) {
	t.Helper()
	ctx, selector, want := context.WithoutCancel(t.Context()), `{"absent": "yes"}`, int32(0)
	if on {
		selector, want = "null", int32(len(c.nodes))
	}
	for _, name := range []string{"mooring-agent", "mooring-fence"} {
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: system}}
		patch := `{"spec": {"template": {"spec": {"nodeSelector": ` + selector + `}}}}`
		if err := c.Patch(ctx, set, client.RawPatch(types.MergePatchType,
			[]byte(patch))); err != nil {
			t.Fatal(err)
		}
		if err := await(ctx, name, func(ctx context.Context) error {
			err := c.Get(ctx, client.ObjectKeyFromObject(set), set)
			if s := set.Status; err != nil || s.ObservedGeneration < set.Generation ||
				s.DesiredNumberScheduled != want || s.NumberReady != want ||
				s.CurrentNumberScheduled != want {
				return fmt.Errorf("want %d pods, the status is %+v, %w", want, s, err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// agentCPU is the CPU time that the agent of the first node has used.
func (c *cluster) agentCPU(t *testing.T) time.Duration {
	t.Helper()
	text := c.ofContainer(t, c.agent(t), "agent",
		`sed -n 's/^usage_usec //p' "$dir/cpu.stat"`)
	usec, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(usec) * time.Microsecond
}

// agent is the running agent on the first node.
func (c *cluster) agent(t *testing.T) *corev1.Pod {
	t.Helper()
	pods, err := c.agents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		if p := &pods[i]; c.nodes[p.Spec.NodeName] == c.node && p.DeletionTimestamp == nil {
			return p
		}
	}
	t.Fatalf("no agent among %d", len(pods))
	return nil
}

// ofContainer runs a shell command on the node. Its $dir is the cgroup directory of a container.
func (c *cluster) ofContainer(t *testing.T, pod *corev1.Pod, name, command string) string {
	t.Helper()
	all := slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses)
	for _, s := range all {
		if _, id, ok := strings.Cut(s.ContainerID, "://"); ok && s.Name == name {
			return c.onNode(t, "sh", "-ec",
				`dir=$(find /sys/fs/cgroup -type d -name "*$1*" | head -1); `+command, "sh", id)
		}
	}
	t.Fatalf("pod %s has no container %s with an ID", pod.Name, name)
	return ""
}

// memory is the memory of a container without cached files, in bytes.
func (c *cluster) memory(t *testing.T, pod *corev1.Pod, name string) float64 {
	t.Helper()
	text := c.ofContainer(t, pod, name, `awk '$1 == "anon" || $1 == "kernel" {n += $2}
		END {print n}' "$dir/memory.stat"`)
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDensityFigures starts as many small VMs as fit on a node, up to a bound. It logs the memory
// of agent and shim per VM, and expects `mooring ps` to list each VM.
func TestDensityFigures(t *testing.T) {
	most, c := figures(t), start(t)
	c.requireMooring(t)
	empty := c.memory(t, c.agent(t), "agent")
	var vmis []*kubevirtv1.VirtualMachineInstance
	for len(vmis) < most && c.fits(t) {
		vmi := newVMI(fmt.Sprint("tiny-", len(vmis)),
			map[string]string{api.InjectSidecarKey: "true"})
		memory := resource.MustParse("64Mi")
		vmi.Spec.Domain.Memory.Guest = &memory
		vmi.Spec.Domain.Resources.Requests[corev1.ResourceMemory] = memory
		c.run(t, vmi)
		vmis = append(vmis, vmi)
	}
	var shims []float64
	for _, vmi := range vmis {
		c.tied(t, vmi)
		shims = append(shims, c.memory(t, c.launcher(t, vmi), "mooring-shim")/1e6)
	}
	full := c.memory(t, c.agent(t), "agent")
	t.Logf("%d VMs; agent %.1f MB without VMs, %.1f MB with them: %.2f MB a VM; shim %+v MB",
		len(vmis), empty/1e6, full/1e6, (full-empty)/1e6/float64(len(vmis)),
		stats.Summarise(shims))
}

// fits reports whether the first node has 512 MiB of free memory, enough for one more VM.
func (c *cluster) fits(t *testing.T) bool {
	t.Helper()
	text := c.onNode(t, "sed", "-n", "s/^MemAvailable: *\\([0-9]*\\) kB/\\1/p", "/proc/meminfo")
	kib, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib > 512<<10
}
