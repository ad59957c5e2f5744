package estimate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/memlock/kubevirt/vmi"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/virt"
)

// Input is what the size of a launcher depends on.
type Input struct {
	// VMI is the instance, as a VM's template makes it or as it is in the cluster. Its
	// instance type is entered already, see [Expand].
	VMI *kubevirtv1.VirtualMachineInstance

	// Namespace is the VM's. Quotas and LimitRanges are all that are in it.
	Namespace   *corev1.Namespace
	Quotas      []*corev1.ResourceQuota
	LimitRanges []*corev1.LimitRange

	Cluster virt.Cluster

	// Shim says that launchers which ask for mooring-shim get it.
	Shim bool
}

// Launcher is the estimate of a launcher pod.
type Launcher struct {
	Pod v1alpha1.ReservedPod

	// Overhead is how much of the memory is for the launcher itself, and not for the guest:
	// KubeVirt adds it to the request, and to the limit where there is one.
	Overhead resource.Quantity

	// LimitRatio is what KubeVirt makes the memory limit of the request, where a quota wants
	// a limit and the VM has none. 0: it makes none.
	LimitRatio float64

	// Unknown names what is not in the estimate. Empty: it is complete.
	Unknown []string
}

// Of estimates a launcher. The errors are those of [vmi.FromVMI] and [kubevirt.Overhead]:
// an amount that cannot be, or a version of KubeVirt that nothing is known of.
func Of(in Input) (Launcher, error) {
	r := newRenderer(in)
	r.enterDefaults()
	overhead, err := r.overhead()
	if err != nil {
		return Launcher{}, fmt.Errorf("estimating the launcher of VM %q: %w", in.VMI.Name, err)
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers:        append([]corev1.Container{{Resources: r.compute(overhead)}}, r.containers()...),
		InitContainers:    r.initContainers(),
		PriorityClassName: r.vmi.Spec.PriorityClassName,
		Affinity:          r.vmi.Spec.Affinity,
	}}
	fill(pod, in.LimitRanges)
	if r.shimAsked() {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, shim(pod.Spec.Containers[0]))
		fill(pod, in.LimitRanges)
	}
	l := Launcher{Pod: quota.Reserve(v1alpha1.RoleLauncher, pod), Overhead: overhead, Unknown: r.unknown()}
	if r.lacksLimit(corev1.ResourceMemory) && !r.vmi.IsCPUDedicated() {
		l.LimitRatio = r.limitRatio()
	}
	return l, nil
}

// renderer sizes the containers of one launcher.
type renderer struct {
	Input
	vmi       *kubevirtv1.VirtualMachineInstance // a copy
	domain    *kubevirtv1.DomainSpec             // the copy's
	config    kubevirtv1.KubeVirtConfiguration
	developer kubevirtv1.DeveloperConfiguration // with KubeVirt's defaults
}

// KubeVirt's defaults.
const (
	defaultCPUAllocationRatio = 10
	defaultMemoryOvercommit   = 100 // percent
)

func newRenderer(in Input) *renderer {
	r := &renderer{Input: in, vmi: in.VMI.DeepCopy(), config: *in.Cluster.Configuration}
	r.domain = &r.vmi.Spec.Domain
	if r.config.DeveloperConfiguration != nil {
		r.developer = *r.config.DeveloperConfiguration
	}
	if r.developer.CPUAllocationRatio == 0 {
		r.developer.CPUAllocationRatio = defaultCPUAllocationRatio
	}
	if r.developer.MemoryOvercommit <= 0 {
		r.developer.MemoryOvercommit = defaultMemoryOvercommit
	}
	return r
}

// overhead is the launcher's own memory, with that of network binding plugins.
func (r *renderer) overhead() (resource.Quantity, error) {
	vm, err := vmi.FromVMI(r.vmi)
	if err != nil {
		return resource.Quantity{}, err
	}
	_, bytes, err := kubevirt.Overhead(vm, r.Cluster.Version, r.Cluster.Ratio)
	if err != nil {
		return resource.Quantity{}, err
	}
	sum := *resource.NewQuantity(bytes, resource.BinarySI)
	for _, plugin := range r.bindings() {
		if plugin.ComputeResourceOverhead != nil {
			sum.Add(plugin.ComputeResourceOverhead.Requests[corev1.ResourceMemory])
		}
	}
	return sum, nil
}

// bindings are the plugins of the interfaces, each once.
func (r *renderer) bindings() map[string]kubevirtv1.InterfaceBindingPlugin {
	used := map[string]kubevirtv1.InterfaceBindingPlugin{}
	if r.config.NetworkConfiguration == nil {
		return nil
	}
	for _, i := range r.domain.Devices.Interfaces {
		if i.Binding == nil {
			continue
		}
		if plugin, ok := r.config.NetworkConfiguration.Binding[i.Binding.Name]; ok {
			used[i.Binding.Name] = plugin
		}
	}
	return used
}
