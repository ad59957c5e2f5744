package guard_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// sizedVM has one CPU and limits equal to its memory. KubeVirt adds [launcherOverhead] to them.
func sizedVM(name string, gib int) *kubevirtv1.VirtualMachine {
	v := vmNamed(name)
	memory := resource.MustParse(fmt.Sprintf("%dGi", gib))
	v.Spec.Template.Spec.Domain.Memory.Guest = &memory
	v.Spec.Template.Spec.Domain.Resources.Limits = list("cpu", "1", "memory", memory.String())
	return v
}

// launcherOverhead is more than the overhead of each VM in these tests.
const launcherOverhead = 512 << 20

// fleet are running VMs beside the guard. It stores edits, and plays KubeVirt's part of them.
type fleet struct {
	*world
	t     *testing.T
	now   time.Time
	names []string
	vmis  instances
	sizes map[string]int // of the launchers, in GiB
}

// instances answers lists of VMIs. The fake client cannot store one with a memory status.
type instances struct {
	client.Reader
	byName map[string]*kubevirtv1.VirtualMachineInstance
}

func (i instances) List(
	ctx context.Context, to client.ObjectList, options ...client.ListOption,
) error {
	list, ok := to.(*kubevirtv1.VirtualMachineInstanceList)
	if !ok {
		return i.Reader.List(ctx, to, options...)
	}
	for _, vmi := range i.byName {
		list.Items = append(list.Items, *vmi)
	}
	return nil
}

// newFleet runs n VMs of 1Gi with a quota of memory.
func newFleet(t *testing.T, n int, hard string) *fleet {
	t.Helper()
	q := quiet()
	q.Spec.Hard = list("limits.memory", hard)
	q.Status.Hard, q.Status.Used = q.Spec.Hard, list("limits.memory", "0")
	f := &fleet{world: newWorld(t, namespace(), q, kubevirtObject()), t: t, now: time.Now(),
		sizes: map[string]int{}}
	f.vmis = instances{f.client, map[string]*kubevirtv1.VirtualMachineInstance{}}
	f.guard.Live, f.guard.Now = f.vmis, func() time.Time { return f.now }
	for i := range n {
		name := fmt.Sprintf("vm%d", i)
		f.names = append(f.names, name)
		v := sizedVM(name, 1)
		v.Generation, v.Status.ObservedGeneration, v.Status.DesiredGeneration = 1, 1, 1
		f.create(v)
		f.vmis.byName[name] = instanceOf(v)
		f.create(launcher(name, "1", "1Gi"))
		f.setLauncher(name, 1)
	}
	return f
}

// instanceOf is the running instance of a VM.
func instanceOf(v *kubevirtv1.VirtualMachine) *kubevirtv1.VirtualMachineInstance {
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: inVMs(v.Name),
		Spec: *v.Spec.Template.Spec.DeepCopy()}
	vmi.UID = "vmi-" + v.UID
	vmi.Status.Memory = &kubevirtv1.MemoryStatus{GuestRequested: vmi.Spec.Domain.Memory.Guest}
	return vmi
}

func (f *fleet) create(o client.Object) {
	f.t.Helper()
	if err := f.client.Create(f.t.Context(), o); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) get(name string, o client.Object) {
	f.t.Helper()
	if err := f.client.Get(f.t.Context(), client.ObjectKey{Namespace: "vms", Name: name},
		o); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) update(o client.Object) {
	f.t.Helper()
	if err := f.client.Update(f.t.Context(), o); err != nil {
		f.t.Fatal(err)
	}
}

// setLauncher gives a VM a launcher for a size, and charges the quota for it.
func (f *fleet) setLauncher(name string, gib int) {
	f.t.Helper()
	pod := &corev1.Pod{}
	f.get("virt-launcher-"+name, pod)
	memory := resource.NewQuantity(int64(gib)<<30+launcherOverhead, resource.BinarySI)
	pod.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory] = *memory
	f.update(pod)
	f.sizes[name] = gib
	q, used := &corev1.ResourceQuota{}, int64(0)
	for _, size := range f.sizes {
		used += int64(size)<<30 + launcherOverhead
	}
	f.get("default", q)
	q.Status.Used = list("limits.memory", resource.NewQuantity(used, resource.BinarySI).String())
	f.update(q)
}

// edit asks a handler for a size and stores an admitted edit.
func (f *fleet) edit(h admission.Handler, name string, gib int) bool {
	f.t.Helper()
	was := &kubevirtv1.VirtualMachine{}
	f.get(name, was)
	is := was.DeepCopy()
	is.Spec.Template = sizedVM(name, gib).Spec.Template
	is.Generation++
	if !h.Handle(f.t.Context(), ask(f.t, admissionv1.Update, was, is)).Allowed {
		return false
	}
	f.update(is)
	return true
}

// hotPlug writes the template's size to the instance, as virt-controller does before a migration.
func (f *fleet) hotPlug(name string) {
	f.t.Helper()
	v := &kubevirtv1.VirtualMachine{}
	f.get(name, v)
	f.vmis.byName[name].Spec.Domain = *v.Spec.Template.Spec.Domain.DeepCopy()
}

// migrate gives the VM a launcher for the size of its instance.
func (f *fleet) migrate(name string) {
	f.t.Helper()
	vmi := f.vmis.byName[name]
	f.setLauncher(name, int(vmi.Spec.Domain.Memory.Guest.Value()>>30))
	vmi.Status.Memory.GuestRequested = vmi.Spec.Domain.Memory.Guest
}

// demandBeside returns the bytes that all VMs but one need at their largest size.
func (f *fleet) demandBeside(but string) int64 {
	f.t.Helper()
	total := int64(0)
	for _, name := range f.names {
		if name == but {
			continue
		}
		v := &kubevirtv1.VirtualMachine{}
		f.get(name, v)
		gib := max(f.sizes[name], int(v.Spec.Template.Spec.Domain.Memory.Guest.Value()>>30),
			int(f.vmis.byName[name].Spec.Domain.Memory.Guest.Value()>>30))
		total += int64(gib)<<30 + launcherOverhead
	}
	return total
}
