package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/cli/explain"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/quota/virt"
	"github.com/mooring-vm/mooring/quota/webhook/launcher"
)

// engineCase is one VM on one version of KubeVirt.
type engineCase struct {
	vmi     *kubevirtv1.VirtualMachineInstance
	version string
	ratio   string
}

func drawEngineCase(t *rapid.T) engineCase {
	few := func(name string) int { return rapid.IntRange(0, 2).Draw(t, name) }
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	bytes := func(name string, least, most int64) *resource.Quantity {
		return resource.NewQuantity(rapid.Int64Range(least, most).Draw(t, name), resource.BinarySI)
	}
	v := &kubevirtv1.VirtualMachineInstance{
		TypeMeta: metav1.TypeMeta{APIVersion: kubevirtv1.GroupVersion.String(),
			Kind: "VirtualMachineInstance"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "vm", UID: "vmi"},
	}
	d := &v.Spec.Domain
	v.Spec.Architecture = rapid.SampledFrom([]string{"amd64", "arm64"}).Draw(t, "architecture")
	d.CPU = &kubevirtv1.CPU{Sockets: rapid.Uint32Range(0, 8).Draw(t, "sockets"),
		Cores: rapid.Uint32Range(0, 4).Draw(t, "cores")}
	d.Memory = &kubevirtv1.Memory{Guest: bytes("guest", 1, 1<<40)}
	d.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: *bytes("request", 1, 1<<40)}
	if flag("hotplug") {
		d.Memory.MaxGuest = bytes("maxGuest", d.Memory.Guest.Value(), 1<<41)
	}
	if flag("reserved") {
		lock := kubevirtv1.MemLockRequirement(kubevirtv1.MemLockRequired)
		d.Memory.ReservedOverhead = &kubevirtv1.ReservedOverhead{
			AddedOverhead: bytes("added", 0, 1<<34)}
		if flag("memLock") {
			d.Memory.ReservedOverhead.MemLock = &lock
		}
	}
	if flag("realtime") {
		d.CPU.Realtime = &kubevirtv1.Realtime{}
	}
	if flag("sev") {
		d.LaunchSecurity = &kubevirtv1.LaunchSecurity{SEV: &kubevirtv1.SEV{}}
	}
	if flag("tpm") {
		d.Devices.TPM = &kubevirtv1.TPMDevice{}
	}
	for i := range few("gpus") {
		d.Devices.GPUs = append(d.Devices.GPUs, kubevirtv1.GPU{Name: string(rune('a' + i)),
			DeviceName: "example.com/gpu"})
	}
	for i := range few("host devices") {
		d.Devices.HostDevices = append(d.Devices.HostDevices, kubevirtv1.HostDevice{
			Name: string(rune('a' + i)), DeviceName: "example.com/device"})
	}
	if flag("plugin") {
		d.Devices.Interfaces = []kubevirtv1.Interface{{Name: "red",
			Binding: &kubevirtv1.PluginBinding{Name: "vdpa"}}}
	}
	c := engineCase{vmi: v, version: rapid.SampledFrom([]string{"1.1", "1.5.3", "1.6.3", "1.7",
		"1.8", "1.8.3", "1.9", "main"}).Draw(t, "version")}
	if flag("ratio") {
		c.ratio = "1.5"
	}
	return c
}

// cliAnswer is the answer of `mooring memlock`.
func (c engineCase) cliAnswer(t *rapid.T) memlockJSON {
	text, err := json.Marshal(c.vmi)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--vmi", "-", "--kubevirt-version", c.version}
	if c.ratio != "" {
		args = append(args, "--ratio", c.ratio)
	}
	return answerOf(t, text, args...)
}

// answerOf runs `mooring memlock` with this standard input.
func answerOf(t *rapid.T, in []byte, args ...string) memlockJSON {
	var out, errOut bytes.Buffer
	program := testProgram(&out, &errOut)
	program.In = bytes.NewReader(in)
	args = append([]string{"memlock", "-o", "json"}, args...)
	if code := program.Run(t.Context(), args); code != ExitOK {
		t.Fatalf("%q: exit code %d: %s", args, code, errOut.String())
	}
	var answer memlockJSON
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// input is the input of the webhook for a launcher of the VM.
func (c engineCase) input(t *rapid.T, pod *corev1.Pod) launcher.Input {
	version, err := kubevirt.ParseVersion(c.version)
	if err != nil {
		t.Fatal(err)
	}
	var ratio kubevirt.Ratio
	if c.ratio != "" {
		if ratio, err = kubevirt.ParseRatio(c.ratio); err != nil {
			t.Fatal(err)
		}
	}
	return launcher.Input{Pod: pod, VMI: c.vmi, Cluster: virt.Cluster{
		Namespace: "kubevirt", Version: version, Ratio: ratio,
		Configuration: &kubevirtv1.KubeVirtConfiguration{}}}
}

// mutated is the answer of the webhook: the launcher pod with annotations, and warnings.
func (c engineCase) mutated(t *rapid.T) (*corev1.Pod, []string) {
	pod := c.launcherPod("virt-launcher-vm")
	out, err := launcher.Mutate(c.input(t, pod))
	if err != nil {
		t.Fatal(err)
	}
	if out.Pod != nil {
		pod = out.Pod
	}
	return pod, out.Warnings
}

// agentLock is the agent's lock for the pod. Package explain is held against the agent's answer.
func agentLock(t *rapid.T, p *policy.Policy, pod *corev1.Pod) (lock string, c explain.Container) {
	c = explain.Explain(p, pod, explain.Node{Architecture: "amd64"}).Containers[0]
	if c.Refusal != "" {
		t.Fatalf("refused: %s", c.Refusal)
	}
	for _, s := range c.Settings {
		if s.Name == agentapi.MemlockSetting {
			lock = s.Given
		}
	}
	return lock, c
}

const anyLock = policyHead + "profiles: [{name: p, podLabels: {kubevirt.io: virt-launcher}, " +
	"container: compute}]\nrules: [{name: a, namespaces: ['*'], memlock: {max: 8191Ti}}]\n"

// For any VM, the CLI, the webhook and the agent give the same number, and say that it is unknown
// for the same missing input.
func TestOneEngine(t *testing.T) {
	p, err := policy.Parse([]byte(anyLock))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		c := drawEngineCase(t)
		answer := c.cliAnswer(t)
		pod, warnings := c.mutated(t)
		lock, explained := agentLock(t, p, pod)
		want := ""
		if answer.LimitBytes != nil {
			want = resource.NewQuantity(*answer.LimitBytes, resource.BinarySI).String()
		}
		if lock != want {
			t.Fatalf("CLI: %q (%+v)\nagent: %q (%+v)", want, answer.Terms, lock,
				explained.Settings)
		}
		warned := slices.ContainsFunc(warnings, func(w string) bool {
			return strings.Contains(w, "memory lock of the VM is unknown")
		})
		if warned != (answer.Verdict == "unknown") {
			t.Fatalf("CLI: %s, warnings of the webhook: %q", answer.Verdict, warnings)
		}
	})
}

// With fewer annotations, the agent's limit is not smaller, or the agent says that it is unknown.
// libvirt's own sum for devices is known without KubeVirt's overhead.
func TestLessInputGivesNoSmallerLimit(t *testing.T) {
	p, err := policy.Parse([]byte(anyLock))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		c := drawEngineCase(t)
		pod, _ := c.mutated(t)
		full, _ := agentLock(t, p, pod)
		if full == "" {
			return
		}
		limit := resource.MustParse(full) // of the pod: the whole launcher
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: limit}
		less := pod.DeepCopy()
		dropped := []string{api.OverheadKey}
		if rapid.Bool().Draw(t, "without guest memory") {
			dropped = append(dropped, api.GuestMemoryKey)
		}
		for _, key := range dropped {
			delete(less.Annotations, key)
		}
		lock, explained := agentLock(t, p, less)
		got := resource.MustParse(lock)
		unknown := slices.ContainsFunc(explained.Notes, func(n string) bool {
			return strings.HasPrefix(n, "memory lock unknown, at least")
		})
		libvirt := slices.ContainsFunc(explained.Settings[0].Terms, func(t agentapi.Term) bool {
			return strings.HasPrefix(t.Name, "libvirt")
		})
		if got.Cmp(limit) < 0 && !unknown && !libvirt {
			t.Fatalf("without %q %s, with it %s; notes %q", dropped, lock, full, explained.Notes)
		}
	})
}
