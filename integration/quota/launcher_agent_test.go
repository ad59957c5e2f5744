package quota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/memlock/kubevirt/vmi"
	"github.com/mooring-vm/mooring/quota/virt"
	"github.com/mooring-vm/mooring/quota/webhook/launcher"
)

// anyLimitPolicy is a policy with all memory-lock limits allowed except unlimited.
const anyLimitPolicy = `
apiVersion: mooring.dev/v1alpha1
kind: NodePolicy
mode: enforce
rules:
- {name: anything, namespaces: ["*"], memlock: {max: 4Pi}}
`

// agentLock returns the memory-lock limit set by an agent for the launcher container, nil if none.
func agentLock(t rapid.TB, pod *corev1.Pod, architecture string) *host.Limit {
	t.Helper()
	rules, err := policy.Parse([]byte(anyLimitPolicy))
	if err != nil {
		t.Fatal(err)
	}
	compute := pod.Spec.Containers[0]
	d := decide.Container(rules, decide.Facts{
		Container: compute.Name, Labels: pod.Labels, Annotations: pod.Annotations,
		Architecture: architecture,
		MemoryLimit:  compute.Resources.Limits.Memory().Value(),
		CPUs:         compute.Resources.Limits.Cpu().MilliValue(),
	})
	if d.Refusal != nil {
		t.Fatalf("%v: %v", pod.Annotations, d.Refusal)
	}
	return d.Memlock
}

func drawVM(t *rapid.T) *virtv1.VirtualMachineInstance {
	v := &virtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "vm",
		UID: "uid"}}
	guest := resource.NewQuantity(rapid.Int64Range(1, 1<<42).Draw(t, "guest"), resource.BinarySI)
	v.Spec.Domain.Memory = &virtv1.Memory{Guest: guest}
	v.Spec.Domain.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: *guest}
	v.Spec.Domain.CPU = &virtv1.CPU{Sockets: rapid.Uint32Range(1, 256).Draw(t, "sockets"),
		Cores: 1, Threads: 1}
	v.Spec.Domain.Devices.GPUs = make([]virtv1.GPU, rapid.IntRange(0, 8).Draw(t, "gpus"))
	if rapid.Bool().Draw(t, "realtime") {
		v.Spec.Domain.CPU.Realtime = &virtv1.Realtime{}
	}
	v.Spec.Architecture = rapid.SampledFrom([]string{"amd64", "arm64"}).Draw(t, "architecture")
	return v
}

// TestAgentCoversKubeVirt evaluates the webhook's annotations with the agent's decision. The limit
// must be at least KubeVirt's, for every KubeVirt version.
func TestAgentCoversKubeVirt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object := drawVM(t)
		version, err := kubevirt.ParseVersion(rapid.SampledFrom([]string{"0.59", "1.1", "1.5",
			"1.7", "1.8", "1.8.3", "1.9", "main"}).Draw(t, "version"))
		if err != nil {
			t.Fatal(err)
		}
		vm, err := vmi.FromVMI(object)
		if err != nil {
			t.Fatal(err)
		}
		want, err := kubevirt.Limit(vm, version, kubevirt.Ratio{})
		if err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "vms"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "compute"}}}}
		out, err := launcher.Mutate(launcher.Input{Pod: pod, VMI: object,
			Cluster: virt.Cluster{Version: version}})
		if err != nil || len(out.Warnings) > 0 || (out.Pod != nil) != want.Required {
			t.Fatalf("%v, %q, changed: %v, want a lock: %v", err, out.Warnings, out.Pod != nil,
				want.Required)
		}
		if out.Pod == nil {
			return
		}
		if got := agentLock(t, out.Pod, object.Spec.Architecture); got == nil ||
			int64(*got) < want.Bytes {
			t.Fatalf("%v gives %v, and KubeVirt %d", out.Pod.Annotations, got, want.Bytes)
		}
	})
}
