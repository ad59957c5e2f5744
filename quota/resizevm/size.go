package resizevm

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// sizedResources returns the resources of the launcher for the size: the resources at its creation,
// and the difference of two estimates. So it has the overhead and the ratios of KubeVirt. Only
// amounts that the container has count.
func (d *decision) sizedResources(size api.Size) (corev1.ResourceRequirements, error) {
	created, _, err := api.RenderedResources(d.pod.Annotations)
	if err != nil {
		return corev1.ResourceRequirements{}, err
	}
	before, err := d.Estimate(d.VMI)
	if err != nil {
		return corev1.ResourceRequirements{}, err
	}
	after, err := d.Estimate(sized(d.VMI, size))
	if err != nil {
		return corev1.ResourceRequirements{}, err
	}
	g := growth{before: before.Pod.Charge, after: after.Pod.Charge}
	out := corev1.ResourceRequirements{Requests: corev1.ResourceList{},
		Limits: corev1.ResourceList{}}
	for _, m := range dimensions() {
		name := corev1.ResourceName(m)
		if q, ok := amount(created.Requests, name); ok {
			out.Requests[name] = plus(q, g.of("requests."+name))
		}
		if q, ok := amount(created.Limits, name); ok {
			limit := plus(q, g.ofLimit(name))
			if request := out.Requests[name]; limit.Cmp(request) < 0 {
				limit = request
			}
			out.Limits[name] = limit
		}
	}
	return out, nil
}

// growth is the difference of two charges.
type growth struct{ before, after corev1.ResourceList }

func (g growth) of(name corev1.ResourceName) resource.Quantity {
	q := g.after[name].DeepCopy()
	q.Sub(g.before[name])
	return q
}

// ofLimit returns the growth of a limit. A limit that KubeVirt would not set today grows like the
// request.
func (g growth) ofLimit(name corev1.ResourceName) resource.Quantity {
	if _, ok := g.after["limits."+name]; ok {
		return g.of("limits." + name)
	}
	return g.of("requests." + name)
}

// plus adds a difference to an amount. An amount never becomes zero or less.
func plus(q, more resource.Quantity) resource.Quantity {
	sum := q.DeepCopy()
	sum.Add(more)
	if sum.Sign() <= 0 {
		return q
	}
	return sum
}

// amount returns one of the amounts. Zero counts as none, as for the QoS class.
func amount(a api.Amounts, name corev1.ResourceName) (resource.Quantity, bool) {
	switch {
	case name == corev1.ResourceCPU && a.CPU != nil && *a.CPU > 0:
		return *resource.NewMilliQuantity(*a.CPU, resource.DecimalSI), true
	case name == corev1.ResourceMemory && a.Memory != nil && *a.Memory > 0:
		return *resource.NewQuantity(*a.Memory, resource.BinarySI), true
	}
	return resource.Quantity{}, false
}

// raised returns resources, with higher amounts where to has them.
func raised(from, to corev1.ResourceRequirements) corev1.ResourceRequirements {
	out := *from.DeepCopy()
	replace(out, to, func(q, want resource.Quantity, _ corev1.ResourceName) bool {
		return q.Cmp(want) < 0
	})
	return out
}

// lowered returns resources, with the lower amounts of to for some dimensions.
func lowered(from, to corev1.ResourceRequirements, in []dimension) corev1.ResourceRequirements {
	out := *from.DeepCopy()
	replace(out, to, func(q, want resource.Quantity, name corev1.ResourceName) bool {
		return slices.Contains(in, dimension(name)) && q.Cmp(want) > 0
	})
	return out
}

// replace sets the amounts that both resources have where the condition holds.
func replace(
	in, by corev1.ResourceRequirements,
	where func(q, want resource.Quantity, name corev1.ResourceName) bool,
) {
	for _, lists := range [][2]corev1.ResourceList{{in.Requests, by.Requests},
		{in.Limits, by.Limits}} {
		for name, q := range lists[0] {
			if want, ok := lists[1][name]; ok && where(q, want, name) {
				lists[0][name] = want
			}
		}
	}
}

func sameResources(a, b corev1.ResourceRequirements) bool {
	return sameList(a.Requests, b.Requests) && sameList(a.Limits, b.Limits)
}

func sameList(a, b corev1.ResourceList) bool {
	for name, q := range a {
		if other, ok := b[name]; !ok || q.Cmp(other) != 0 {
			return false
		}
	}
	return len(a) == len(b)
}

// lacking returns which quotas lack room for the growth of the pod; "": none.
func (d *decision) lacking(resources corev1.ResourceRequirements) string {
	larger := d.pod.DeepCopy()
	for i := range larger.Spec.Containers {
		if larger.Spec.Containers[i].Name == compute {
			larger.Spec.Containers[i].Resources = resources
		}
	}
	entry := quota.Reserve(v1alpha1.RoleLauncher, larger)
	g := growth{before: quota.Charge(d.pod), after: entry.Charge}
	entry.Charge = corev1.ResourceList{}
	for name := range g.after {
		if more := g.of(name); more.Sign() > 0 {
			entry.Charge[name] = more
		}
	}
	return quota.Lacking(d.Accounts, entry)
}

// sized returns the instance as if its template had this size.
func sized(
	vmi *kubevirtv1.VirtualMachineInstance, size api.Size,
) *kubevirtv1.VirtualMachineInstance {
	out := vmi.DeepCopy()
	if size.Memory != 0 {
		setMemory(&out.Spec.Domain, int64(size.Memory))
	}
	if size.VCPUs != 0 {
		setVCPUs(&out.Spec.Domain, int64(size.VCPUs))
	}
	return out
}

func setMemory(d *kubevirtv1.DomainSpec, bytes int64) {
	more := *resource.NewQuantity(bytes-guestMemory(d), resource.BinarySI)
	if d.Memory == nil {
		d.Memory = &kubevirtv1.Memory{}
	}
	d.Memory.Guest = resource.NewQuantity(bytes, resource.BinarySI)
	for _, list := range []corev1.ResourceList{d.Resources.Requests, d.Resources.Limits} {
		if q, ok := list[corev1.ResourceMemory]; ok {
			list[corev1.ResourceMemory] = plus(q, more)
		}
	}
}

// setVCPUs changes the topology, and CPU amounts of the template in proportion.
func setVCPUs(d *kubevirtv1.DomainSpec, vcpus int64) {
	before := vcpusOf(d.CPU)
	if d.CPU == nil {
		d.CPU = &kubevirtv1.CPU{}
	}
	d.CPU.Sockets, d.CPU.Cores, d.CPU.Threads = uint32(vcpus), 1, 1 // at most api.MaxVCPUs
	for _, list := range []corev1.ResourceList{d.Resources.Requests, d.Resources.Limits} {
		if q, ok := list[corev1.ResourceCPU]; ok {
			milli := (min(q.MilliValue(), api.MaxMilliCPU)*vcpus + before - 1) / before
			list[corev1.ResourceCPU] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
		}
	}
}

// guestMemory returns the guest's memory in bytes, from the fields that KubeVirt reads.
func guestMemory(d *kubevirtv1.DomainSpec) int64 {
	if d.Memory != nil && d.Memory.Guest != nil {
		return d.Memory.Guest.Value()
	}
	for _, list := range []corev1.ResourceList{d.Resources.Requests, d.Resources.Limits} {
		if q, ok := list[corev1.ResourceMemory]; ok {
			return q.Value()
		}
	}
	return 0
}

func vcpusOf(cpu *kubevirtv1.CPU) int64 {
	if cpu == nil {
		return 1
	}
	return int64(max(1, cpu.Sockets)) * int64(max(1, cpu.Cores)) * int64(max(1, cpu.Threads))
}

// maxVCPUs returns the largest number of vCPUs of the domain; 0: the instance names none.
func maxVCPUs(vmi *kubevirtv1.VirtualMachineInstance) int64 {
	cpu := vmi.Spec.Domain.CPU
	if cpu == nil || cpu.MaxSockets == 0 {
		return 0
	}
	return int64(cpu.MaxSockets) * int64(max(1, cpu.Cores)) * int64(max(1, cpu.Threads))
}

// maxMemory returns the largest memory of the guest; 0: the instance names none.
func maxMemory(vmi *kubevirtv1.VirtualMachineInstance) int64 {
	if m := vmi.Spec.Domain.Memory; m != nil && m.MaxGuest != nil {
		return m.MaxGuest.Value()
	}
	return 0
}
