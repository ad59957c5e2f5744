package launcher

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
)

// size is what a VM has become by being resized in place.
type size struct {
	resized     bool
	resources   corev1.ResourceRequirements // of the launcher container: what differs from what was rendered
	annotations map[string]string           // that ask for a size
	guest       int64                       // bytes that the guest may have by them; 0: not known
	vcpus       int                         // likewise
}

// findSize finds out which size the VM has, for the target of its migration.
func (m *mutation) findSize() error {
	if !isTarget(m.Pod) {
		return nil
	}
	if m.LaunchersErr != nil {
		if m.resizable() {
			return &Refusal{fmt.Sprintf("mooring: the VM may have been resized in place, and whether it was is not known: %v; try again", m.LaunchersErr)}
		}
		m.warn("whether the VM was resized in place is not known: %v", m.LaunchersErr)
		return nil
	}
	sources := m.sources()
	if len(sources) == 1 {
		m.size = sizeOf(sources[0], m.name)
		return nil
	}
	for _, pod := range sources {
		if sizeOf(pod, m.name).resized {
			return &Refusal{fmt.Sprintf("mooring: the VM was resized in place, and which of its %d launchers it runs in is not known: %s; "+
				"end those that it does not run in", len(sources), strings.Join(namesOf(sources), ", "))}
		}
	}
	return nil
}

// sources are the launchers that the VM may run in: on its node, and not ended or ending. Of
// several those that KubeVirt has seen, if it has seen any.
func (in *Input) sources() []*corev1.Pod {
	var all []*corev1.Pod
	for i := range in.Launchers {
		pod := &in.Launchers[i]
		elsewhere := in.VMI != nil && in.VMI.Status.NodeName != "" && pod.Spec.NodeName != in.VMI.Status.NodeName
		if !elsewhere && in.before(pod) {
			all = append(all, pod)
		}
	}
	if active := in.active(all); len(active) > 0 {
		return active
	}
	return all
}

// active are those of some pods that the VM's status lists. KubeVirt lists each pod whose
// controller is the VM, when it comes to it.
func (in *Input) active(pods []*corev1.Pod) []*corev1.Pod {
	if in.VMI == nil {
		return nil
	}
	var all []*corev1.Pod
	for _, pod := range pods {
		if _, ok := in.VMI.Status.ActivePods[pod.UID]; ok {
			all = append(all, pod)
		}
	}
	return all
}

// wasResized reports whether the pod is the target of a migration, and a launcher that the VM
// may run in says that it was resized in place.
func (in *Input) wasResized() bool {
	return isTarget(in.Pod) && slices.ContainsFunc(in.sources(), func(pod *corev1.Pod) bool { return sizeOf(pod, compute).resized })
}

// cannotBeSized refuses a target that has to have another size than it was rendered with.
func cannotBeSized(err error) *Refusal {
	return &Refusal{"mooring: the VM was resized in place, and its target cannot be given that size: " + oneLine(err)}
}

// before reports whether a pod is a launcher of the same VM that runs, and not one for the
// same migration.
func (in *Input) before(pod *corev1.Pod) bool {
	_, vmi, _ := IsLauncher(in.Pod)
	_, of, ok := IsLauncher(pod)
	ended := pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return ok && of == vmi && !ended && pod.Labels[kubevirtv1.MigrationJobLabel] != in.Pod.Labels[kubevirtv1.MigrationJobLabel]
}

func namesOf(pods []*corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names
}

// sizeOf tells from a VM's launcher whether it was resized in place, and to what. Where what
// was rendered is not on record, all that the container has counts if a size was asked for.
func sizeOf(pod *corev1.Pod, container string) size {
	c := containerOf(pod, container)
	if c == nil {
		return size{}
	}
	s := size{annotations: resizeKeys(pod.Annotations)}
	was, recorded, _ := api.RenderedResources(pod.Annotations)
	now := current(pod, c)
	if recorded {
		s.resources = corev1.ResourceRequirements{Requests: differing(now.Requests, was.Requests), Limits: differing(now.Limits, was.Limits)}
	} else if len(s.annotations) > 0 {
		s.resources = now
	}
	s.resized = len(s.annotations)+len(s.resources.Requests)+len(s.resources.Limits) > 0
	if limit, ok := s.resources.Limits[corev1.ResourceMemory]; ok {
		s.guest = limit.Value()
	}
	if request, err := api.Parse(pod.Annotations, container); err == nil {
		s.guest, s.vcpus = max(s.guest, int64(request.Size.Memory)), request.Size.VCPUs
	}
	return s
}

// current are the resources of a container now: the largest of what is wanted, unless the
// node cannot give it, and of what is in force. A VM gives memory back before its limit falls.
func current(pod *corev1.Pod, c *corev1.Container) corev1.ResourceRequirements {
	now := corev1.ResourceRequirements{}
	if !podresource.IsPodResizeInfeasible(pod) {
		now = raise(now, c.Resources)
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name != c.Name {
			continue
		}
		now = raise(now, corev1.ResourceRequirements{Requests: status.AllocatedResources})
		if status.Resources != nil {
			now = raise(now, *status.Resources)
		}
	}
	return now
}

// sizes names what Kubernetes resizes in place.
func sizes() []corev1.ResourceName {
	return []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
}

// raise returns the larger of each CPU and memory amount of two.
func raise(a, b corev1.ResourceRequirements) corev1.ResourceRequirements {
	a.Requests, a.Limits = larger(a.Requests, b.Requests), larger(a.Limits, b.Limits)
	return a
}

func larger(a, b corev1.ResourceList) corev1.ResourceList {
	out := maps.Clone(a)
	for _, name := range sizes() {
		q, ok := b[name]
		if now, there := out[name]; !ok || there && now.Cmp(q) >= 0 {
			continue
		}
		if out == nil {
			out = corev1.ResourceList{}
		}
		out[name] = q.DeepCopy()
	}
	return out
}

// record is what a launcher container's resources are now.
func record(c *corev1.Container) api.Rendered {
	return api.Rendered{Requests: amounts(c.Resources.Requests), Limits: amounts(c.Resources.Limits)}
}

func amounts(list corev1.ResourceList) api.Amounts {
	var a api.Amounts
	if q, ok := list[corev1.ResourceCPU]; ok {
		a.CPU = new(min(q.MilliValue(), api.MaxMilliCPU))
	}
	if q, ok := list[corev1.ResourceMemory]; ok {
		a.Memory = new(q.Value())
	}
	return a
}

// differing are the amounts of a list that are not those on record.
func differing(now corev1.ResourceList, was api.Amounts) corev1.ResourceList {
	out := corev1.ResourceList{}
	is := amounts(now)
	if is.CPU != nil && (was.CPU == nil || *is.CPU != *was.CPU) {
		out[corev1.ResourceCPU] = now[corev1.ResourceCPU]
	}
	if is.Memory != nil && (was.Memory == nil || *is.Memory != *was.Memory) {
		out[corev1.ResourceMemory] = now[corev1.ResourceMemory]
	}
	return out
}

// resizeKeys are the annotations that ask for a size, at any scope.
func resizeKeys(annotations map[string]string) map[string]string {
	found := map[string]string{}
	for key, value := range annotations {
		switch base, _, _ := strings.Cut(key, "/"); base {
		case api.VCPUsKey, api.ResizeMemoryKey, api.CPUQuotaKey, api.CPUSharesKey:
			found[key] = value
		}
	}
	return found
}

// applySize gives the target of a migration the size that the VM has.
func (m *mutation) applySize() {
	if !m.size.resized {
		return
	}
	c := m.container()
	c.Resources = raise(c.Resources, m.size.resources)
	for name, request := range c.Resources.Requests {
		if limit, ok := c.Resources.Limits[name]; ok && limit.Cmp(request) < 0 {
			c.Resources.Limits[name] = request.DeepCopy()
		}
	}
	for key := range m.size.annotations {
		base, _, _ := strings.Cut(key, "/")
		maps.DeleteFunc(m.pod.Annotations, func(old, _ string) bool {
			_, kept := m.size.annotations[old]
			return !kept && strings.HasPrefix(old+"/", base+"/")
		})
	}
	maps.Copy(m.pod.Annotations, m.size.annotations)
}

// grow returns the VM with the size that it has become.
func (s size) grow(vm kubevirt.VM) kubevirt.VM {
	if largest, _, err := vm.Memory.LargestGuest(); err == nil && s.guest > largest {
		vm.Memory.MaxGuest = s.guest
		if vm.Memory.Request > 0 && vm.Memory.Request <= math.MaxInt64-(s.guest-largest) {
			vm.Memory.Request += s.guest - largest
		}
	}
	has := uint64(max(1, vm.CPU.Sockets)) * uint64(max(1, vm.CPU.Cores)) * uint64(max(1, vm.CPU.Threads))
	if s.vcpus > 0 && uint64(s.vcpus) > has {
		vm.CPU.Sockets, vm.CPU.Cores, vm.CPU.Threads = uint32(s.vcpus), 1, 1
	}
	return vm
}
