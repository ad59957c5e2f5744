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
	"github.com/mooring-vm/mooring/internal/plaintext"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
)

// size is the result of an in-place resize of a VM.
type size struct {
	resized bool
	// of the launcher container, where they differ from the rendered ones
	resources   corev1.ResourceRequirements
	annotations map[string]string // the annotations with the desired size
	guest       int64             // bytes of guest memory in the annotations; 0: unknown
	vcpus       int               // vCPUs in the annotations; 0: unknown
}

// findSize finds the size of the VM for its migration target.
func (m *mutation) findSize() error {
	if !isTarget(m.Pod) {
		return nil
	}
	if m.LaunchersErr != nil {
		if m.resizable() {
			return &Refusal{fmt.Sprintf("mooring: cannot find out whether the VM was resized in "+
				"place: %v; try again",
				m.LaunchersErr)}
		}
		m.warn("cannot find out whether the VM was resized in place: %v", m.LaunchersErr)
		return nil
	}
	sources := m.sources()
	if len(sources) == 0 && m.Pod.Labels[api.ResizedLabel] == "true" &&
		m.VMI.Status.NodeName != "" {
		return &Refusal{"mooring: the VM was resized in place, and no launcher that runs it has " +
			"its size; try again"}
	}
	if len(sources) == 1 {
		m.size = sizeOf(sources[0], m.name)
		return nil
	}
	for _, pod := range sources {
		if sizeOf(pod, m.name).resized {
			return &Refusal{fmt.Sprintf("mooring: the VM was resized in place and has %d "+
				"launchers: %s; "+
				"delete those that do not run it", len(sources),
				strings.Join(namesOf(sources), ", "))}
		}
	}
	return nil
}

// sources returns the launchers that may run the VM: on its node and not ended or in deletion. If
// the VM's status lists some of them, only the listed ones count.
func (in *Input) sources() []*corev1.Pod {
	var all []*corev1.Pod
	for i := range in.Launchers {
		pod := &in.Launchers[i]
		elsewhere := in.VMI != nil && in.VMI.Status.NodeName != "" &&
			pod.Spec.NodeName != in.VMI.Status.NodeName
		if !elsewhere && in.isEarlierLauncher(pod) {
			all = append(all, pod)
		}
	}
	if active := in.active(all); len(active) > 0 {
		return active
	}
	return all
}

// active returns the pods listed in the VM's status. KubeVirt lists each pod controlled by the VM.
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

// mayBeResized reports whether the pod is a migration target and its VM was resized in place, or
// may have been because its launchers are unreadable.
func (in *Input) mayBeResized() bool {
	return isTarget(in.Pod) && (in.Pod.Labels[api.ResizedLabel] == "true" ||
		in.LaunchersErr != nil && in.resizable() ||
		slices.ContainsFunc(in.sources(),
			func(pod *corev1.Pod) bool { return sizeOf(pod, compute).resized }))
}

// refuseUnsized refuses a target that cannot get the VM's size.
func refuseUnsized(err error) *Refusal {
	return &Refusal{"mooring: the target cannot get the size of a VM resized in place: " +
		plaintext.OneLine(err.Error())}
}

// isEarlierLauncher reports whether a pod is a running launcher of the same VM and not part of the
// same migration.
func (in *Input) isEarlierLauncher(pod *corev1.Pod) bool {
	_, vmi, _ := IsLauncher(in.Pod)
	_, of, ok := IsLauncher(pod)
	ended := pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded ||
		pod.Status.Phase == corev1.PodFailed
	return ok && of == vmi && !ended && pod.Labels[kubevirtv1.MigrationJobLabel] !=
		in.Pod.Labels[kubevirtv1.MigrationJobLabel]
}

func namesOf(pods []*corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names
}

// sizeOf reads from a launcher whether and to which size it was resized in place. Without a record
// of the rendered resources, all resources count if a size is annotated.
func sizeOf(pod *corev1.Pod, container string) size {
	c := containerOf(pod, container)
	if c == nil {
		return size{}
	}
	s := size{annotations: resizeKeys(pod.Annotations)}
	was, recorded, _ := api.RenderedResources(pod.Annotations)
	now := current(pod, c)
	if recorded {
		s.resources = corev1.ResourceRequirements{Requests: difference(now.Requests, was.Requests),
			Limits: difference(now.Limits, was.Limits)}
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

// current returns the current resources of a container: the larger of desired, unless infeasible,
// and actual. A VM gives memory back before its limit falls.
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

// resizableResources are the resources that Kubernetes resizes in place.
func resizableResources() []corev1.ResourceName {
	return []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
}

// raise returns the larger CPU and memory amounts of two.
func raise(a, b corev1.ResourceRequirements) corev1.ResourceRequirements {
	a.Requests, a.Limits = larger(a.Requests, b.Requests), larger(a.Limits, b.Limits)
	return a
}

func larger(a, b corev1.ResourceList) corev1.ResourceList {
	out := maps.Clone(a)
	for _, name := range resizableResources() {
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

// record returns the current resources of a launcher container.
func record(c *corev1.Container) api.Rendered {
	return api.Rendered{Requests: amounts(c.Resources.Requests),
		Limits: amounts(c.Resources.Limits)}
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

// difference returns the amounts that differ from the record.
func difference(now corev1.ResourceList, was api.Amounts) corev1.ResourceList {
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

// resizeKeys returns the annotations with a desired size, at any scope.
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

// applySize gives a migration target the size of its VM.
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

// grow returns the VM with this size.
func (s size) grow(vm kubevirt.VM) kubevirt.VM {
	if largest, _, err := vm.Memory.LargestGuest(); err == nil && s.guest > largest {
		vm.Memory.MaxGuest = s.guest
		if vm.Memory.Request > 0 && vm.Memory.Request <= math.MaxInt64-(s.guest-largest) {
			vm.Memory.Request += s.guest - largest
		}
	}
	has := uint64(max(1, vm.CPU.Sockets)) * uint64(max(1, vm.CPU.Cores)) * uint64(
		max(1, vm.CPU.Threads))
	if s.vcpus > 0 && uint64(s.vcpus) > has {
		vm.CPU.Sockets, vm.CPU.Cores, vm.CPU.Threads = uint32(s.vcpus), 1, 1
	}
	return vm
}
