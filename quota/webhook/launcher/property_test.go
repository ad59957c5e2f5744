package launcher

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/memlock"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/memlock/kubevirt/vmi"
)

func drawQuantity(t *rapid.T, name string, least, most int64) *resource.Quantity {
	return resource.NewQuantity(rapid.Int64Range(least, most).Draw(t, name), resource.BinarySI)
}

// drawVMI draws VMs of up to 1 TiB. Most of them need a lock.
func drawVMI(t *rapid.T) *kubevirtv1.VirtualMachineInstance {
	few := func(name string) int { return rapid.IntRange(0, 3).Draw(t, name) }
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	v := newVMI()
	d := &v.Spec.Domain
	d.Memory.Guest = drawQuantity(t, "guest", 1, 1<<40)
	d.Resources.Requests[corev1.ResourceMemory] = *drawQuantity(t, "request", 1, 1<<40)
	if flag("hotplug") {
		d.Memory.MaxGuest = drawQuantity(t, "maxGuest", d.Memory.Guest.Value(), 1<<41)
	}
	if flag("reserved") {
		lock := rapid.SampledFrom([]kubevirtv1.MemLockRequirement{kubevirtv1.MemLockRequired,
			kubevirtv1.MemLockNotRequired}).Draw(t, "memLock")
		d.Memory.ReservedOverhead = &kubevirtv1.ReservedOverhead{MemLock: &lock,
			AddedOverhead: drawQuantity(t, "added", 0, 1<<34)}
	}
	d.CPU.Sockets, d.CPU.Cores = rapid.Uint32Range(0, 64).Draw(t, "sockets"),
		rapid.Uint32Range(0, 8).Draw(t, "cores")
	if flag("realtime") {
		d.CPU.Realtime = &kubevirtv1.Realtime{}
	}
	d.CPU.DedicatedCPUPlacement = flag("dedicated")
	if flag("sev") {
		d.LaunchSecurity = &kubevirtv1.LaunchSecurity{SEV: &kubevirtv1.SEV{}}
	}
	d.Devices.GPUs, d.Devices.HostDevices = make([]kubevirtv1.GPU, few("gpus")),
		make([]kubevirtv1.HostDevice, few("host devices"))
	for range few("interfaces") {
		d.Devices.Interfaces = append(d.Devices.Interfaces,
			kubevirtv1.Interface{InterfaceBindingMethod: kubevirtv1.InterfaceBindingMethod{
				SRIOV: &kubevirtv1.InterfaceSRIOV{}}})
	}
	return v
}

// drawAnnotations draws existing annotations of a pod.
func drawAnnotations(t *rapid.T) map[string]string {
	annotations := map[string]string{}
	choices := map[string][]string{
		api.ValueKey: {"0", "1Gi", "unlimited", "1"}, api.DevicesKey: {"vdpa=1", "vfio=2,iommu",
			"nvme=3,iommu"}, api.GuestMemoryKey: {"1", "4Gi"},
		api.RequiresLockKey: {"true", "false"}, requiredPlugins: {"[]", "[other]", `["mooring"]`},
		"a": {"b"}, api.ResizeMemoryKey: {"8Gi"},
		api.InjectSidecarKey: {"true", "false", "follow-limits"}, api.InjectPreStopKey: {"true"},
		api.GracePeriodKey: {"10s", "2h"},
		api.LauncherKey:    {"compute"}, api.APIVersionKey: {api.APIVersion},
	}
	for _, key := range slices.Sorted(maps.Keys(choices)) {
		if rapid.IntRange(0, 3).Draw(t, "has "+key) > 0 {
			continue
		}
		scope := ""
		if key == api.ValueKey || key == api.DevicesKey || key == api.GuestMemoryKey {
			scope = rapid.SampledFrom([]string{"", "/pod", "/container.compute"}).Draw(t, "scope")
		}
		annotations[key+scope] = rapid.SampledFrom(choices[key]).Draw(t, key)
	}
	return annotations
}

func drawInput(t *rapid.T) Input {
	in := input(newPod(drawAnnotations(t)), drawVMI(t))
	in.Cluster = cluster(rapid.SampledFrom([]string{
		"0.54", "0.58.2", "0.59", "1.0", "1.1", "1.3", "1.4.1", "1.5.3", "1.6.3", "1.7", "1.8",
		"1.8.3", "1.9", "main",
	}).Draw(t, "version"))
	if ratio, err := kubevirt.ParseRatio("1.5"); err == nil &&
		in.Cluster.Version.Compare(cluster("1.0").Version) >= 0 && rapid.Bool().Draw(t, "ratio") {
		in.Cluster.Ratio = ratio
	}
	in.Reserved = Reserved{RequiresLock: rapid.Bool().Draw(t, "requires"),
		Value: rapid.Int64Range(0, 1<<34).Draw(t, "value")}
	return in
}

// For any VM and annotations: a second pass makes no change, no existing value is lost or lowered,
// and the agent accepts the result.
func TestOnlyAdds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		before := maps.Clone(in.Pod.Annotations)
		out, err := Mutate(in)
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(before, in.Pod.Annotations) {
			t.Fatal("the input was changed")
		}
		if out.Pod == nil {
			return
		}
		checkOnlyAdded(t, before, out.Pod.Annotations)
		in.Pod = out.Pod
		if again, err := Mutate(in); err != nil || again.Pod != nil {
			t.Fatalf("a second pass made of %v this: %v, %v", out.Pod.Annotations, again.Pod, err)
		}
	})
}

func checkOnlyAdded(t *rapid.T, before, after map[string]string) {
	was, err := api.Parse(before, compute)
	if err != nil {
		t.Fatal(err)
	}
	is, err := api.Parse(after, compute)
	if err != nil {
		t.Fatalf("%v: %v", after, err)
	}
	for key := range before {
		if _, kept := after[key]; !kept {
			t.Fatalf("%s is lost", key)
		}
	}
	switch {
	case was.Value != nil && (is.Value.Unlimited != was.Value.Unlimited ||
		is.Value.Bytes < was.Value.Bytes),
		was.GuestMemory != nil && *is.GuestMemory < *was.GuestMemory,
		is.Devices.VFIO < was.Devices.VFIO, is.Devices.VDPA != was.Devices.VDPA,
		is.Devices.NVMe != was.Devices.NVMe, is.Devices.IOMMU != was.Devices.IOMMU:
		t.Fatalf("of %v became %v", before, after)
	}
}

// The agent's limit is at least KubeVirt's own limit and libvirt's limit for the domain. Without
// annotations of others it is the larger one, exact to the byte.
func TestCovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		if rapid.Bool().Draw(t, "without annotations") {
			in.Pod.Annotations = nil
		}
		vm, err := vmi.FromVMI(in.VMI)
		if err != nil {
			t.Fatal(err)
		}
		want, err := kubevirt.Limit(vm, in.Cluster.Version, in.Cluster.Ratio)
		if err != nil {
			t.Fatal(err)
		}
		out, err := Mutate(in)
		if err != nil {
			t.Fatal(err)
		}
		if out.Pod == nil {
			if want.Required || in.Reserved.RequiresLock {
				t.Fatalf("left as it is, with warnings %q, and wants %+v", out.Warnings, want)
			}
			return
		}
		got, libvirt := agentLimit(t, out.Pod), libvirtLimit(t, vm)
		want = atLeast(t, in, vm, want)
		if want.Required && !got.Covers(want) {
			t.Fatalf("%v gives %+v, and KubeVirt %+v", out.Pod.Annotations, got, want)
		}
		if !got.Covers(libvirt) {
			t.Fatalf("%v gives %+v, and libvirt wants %+v", out.Pod.Annotations, got, libvirt)
		}
		if in.Pod.Annotations == nil && want.Required &&
			got.Bytes > max(want.Bytes, libvirt.Bytes+share(in, vm)) {
			t.Fatalf("%v gives %+v, more than KubeVirt's %+v", out.Pod.Annotations, got, want)
		}
	})
}

// share is the lockable memory that VEP 144 adds.
func share(in Input, vm kubevirt.VM) int64 { return in.Reserved.Value + vm.Memory.AddedOverhead }

// libvirtLimit is libvirt's limit for the domain of a VM.
func libvirtLimit(t *rapid.T, vm kubevirt.VM) memlock.Result {
	terms, err := memlock.ForDevices(memlock.Term{Name: "guest", Bytes: largest(t, vm)},
		api.Devices{VFIO: vm.HostDevices + vm.GPUs + vm.SRIOV})
	if err != nil {
		t.Fatal(err)
	}
	r, err := memlock.Limited("", terms...)
	if err != nil {
		t.Fatal(err)
	}
	r.Required = len(terms) > 0
	return r
}

func largest(t *rapid.T, vm kubevirt.VM) int64 {
	bytes, _, err := vm.Memory.LargestGuest()
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// atLeast is virt-handler's limit, computed apart from [kubevirt.Bound]: memory, rounded up once
// and counted per device in new versions, plus the demand beyond it.
func atLeast(t *rapid.T, in Input, vm kubevirt.VM, limit memlock.Result) memlock.Result {
	n := int64(vm.HostDevices + vm.GPUs + vm.SRIOV)
	memory := max(largest(t, vm), vm.Memory.Request)
	counted := overheadBytes(t, in, vm)
	vm.Memory.AddedOverhead = 0
	known := overheadBytes(t, in, vm) < counted // the version knows addedOverhead
	limit.Bytes = counted + (memory+999)/1000*1000 + in.Reserved.Value
	if reserved := in.VMI.Spec.Domain.Memory.ReservedOverhead; reserved != nil && !known {
		limit.Bytes += reserved.AddedOverhead.Value()
	}
	if n > 1 && in.Cluster.Version.Compare(cluster("1.8.3").Version) >= 0 {
		limit.Bytes += (n - 1) * memory
	}
	return limit
}

func overheadBytes(t *rapid.T, in Input, vm kubevirt.VM) int64 {
	_, bytes, err := kubevirt.Overhead(vm, in.Cluster.Version, in.Cluster.Ratio)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// agentLimit is the agent's limit from a pod's annotations.
func agentLimit(t *rapid.T, pod *corev1.Pod) memlock.Result {
	request, err := api.Parse(pod.Annotations, compute)
	if err != nil {
		t.Fatal(err)
	}
	in := memlock.Input{Request: request}
	if request.Overhead != nil {
		in.Overhead = []memlock.Term{{Name: "overhead", Bytes: int64(*request.Overhead)}}
	}
	if request.GuestMemory == nil {
		return memlock.Result{}
	}
	r, err := memlock.ForLauncher(in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
