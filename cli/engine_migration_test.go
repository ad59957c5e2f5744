package cli

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/quota/webhook/launcher"
)

// launcherPod returns a launcher of the VM as KubeVirt creates it.
func (c engineCase) launcherPod(name string) *corev1.Pod {
	owner := metav1.NewControllerRef(c.vmi, kubevirtv1.VirtualMachineInstanceGroupVersionKind)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: name,
		Labels: map[string]string{kubevirtv1.AppLabel: "virt-launcher",
			kubevirtv1.CreatedByLabel: string(c.vmi.UID)},
		OwnerReferences: []metav1.OwnerReference{*owner}}}
	pod.Spec.Containers = []corev1.Container{{Name: "compute"}}
	return pod
}

// target returns the migration target of the VM as the webhook changes it. source ran the VM.
func (c engineCase) target(t *rapid.T, source *corev1.Pod) *corev1.Pod {
	pod := c.launcherPod("target")
	pod.Labels[kubevirtv1.MigrationJobLabel] = "migration"
	in := c.input(t, pod)
	in.Launchers = []corev1.Pod{*source}
	out, err := launcher.Mutate(in)
	if err != nil {
		t.Fatal(err)
	}
	if out.Pod == nil {
		return pod
	}
	return out.Pod
}

// grown returns the VM with this largest memory, for which KubeVirt's objects have no word after a
// resize in place.
func (c engineCase) grown(memory int64) engineCase {
	d := &c.vmi.DeepCopy().Spec.Domain
	largest := d.Memory.Guest
	if d.Memory.MaxGuest != nil {
		largest = d.Memory.MaxGuest
	}
	request := d.Resources.Requests[corev1.ResourceMemory]
	if more := memory - largest.Value(); more > 0 {
		request.Add(*resource.NewQuantity(more, resource.BinarySI))
		d.Resources.Requests[corev1.ResourceMemory] = request
		d.Memory.MaxGuest = resource.NewQuantity(memory, resource.BinarySI)
	}
	vmi := c.vmi.DeepCopy()
	vmi.Spec.Domain = *d
	c.vmi = vmi
	return c
}

// The agent on the target's node gives the launcher the lock of the size in force, which only the
// source shows. The CLI gives the same number for a VM that can be as large.
func TestOneEngineForMigrationTargets(t *testing.T) {
	p, err := policy.Parse([]byte(anyLock))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		c := drawEngineCase(t)
		memory := rapid.Int64Range(1<<20, 1<<42).Draw(t, "memory")
		source := c.launcherPod("source")
		source.Annotations = map[string]string{
			api.ResizeMemoryKey: resource.NewQuantity(memory, resource.BinarySI).String()}
		lock, explained := agentLock(t, p, c.target(t, source))
		if want := c.grown(memory).cliAnswer(t).lock(); lock != want {
			t.Fatalf("CLI: %q for a VM of %d bytes\nagent: %q (%+v)", want, memory, lock,
				explained.Settings)
		}
	})
}

// Without KubeVirt a target copies the annotations of the source, with the size in force and the
// guest memory of the boot. The agent's lock covers libvirt's for the size in force.
func TestLockOfACopiedLauncher(t *testing.T) {
	p, err := policy.Parse([]byte(strings.Replace(anyLock, "max:", "unlimited: true, max:", 1)))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		c := drawDomainCase(t)
		c.maxMemory, c.hardLimit = 0, 0
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "target",
			Annotations: c.annotations()}}
		memory := rapid.Uint64Range(1, 1<<31).Draw(t, "size in force")
		pod.Annotations[api.ResizeMemoryKey] = (api.Bytes(memory) << 10).String()
		pod.Spec.Containers = []corev1.Container{{Name: "compute",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
				corev1.ResourceMemory: resource.MustParse("1Gi")}}}}
		lock, explained := agentLock(t, p, pod)
		c.memory = memory
		c.started = c.pool // the running domain shows its devices
		if need := sidecarLock(t, c.xml()); !lockCovers(lock, need) {
			t.Fatalf("agent: %q (%+v), libvirt needs %q\n%s", lock, explained.Settings, need, c.xml())
		}
	})
}

// lockCovers reports whether a lock in the agent's form is not smaller than another one.
func lockCovers(lock, need string) bool {
	switch {
	case need == "" || lock == api.Unlimited:
		return true
	case lock == "" || need == api.Unlimited:
		return false
	}
	a, b := resource.MustParse(lock), resource.MustParse(need)
	return a.Cmp(b) >= 0
}
