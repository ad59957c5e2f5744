package estimate

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/memlock/kubevirt"
)

// setDefaults sets the defaults of virt-api's webhook. They are already set in an instance from the
// cluster.
func (r *renderer) setDefaults() {
	r.setArchitecture()
	r.setCPURequest()
	if r.webhookSetsMemory() {
		r.setMemoryRequest(r.requests())
	}
	r.setGuestMemory()
	r.setTopology()
	addDefaultInterface(&r.vmi.Spec)
}

func (r *renderer) setArchitecture() {
	configured := ""
	if r.config.ArchitectureConfiguration != nil {
		configured = r.config.ArchitectureConfiguration.DefaultArchitecture
	}
	r.vmi.Spec.Architecture = cmp.Or(r.vmi.Spec.Architecture, configured, "amd64")
}

// requests returns the domain's requests as a writable map.
func (r *renderer) requests() corev1.ResourceList {
	if r.domain.Resources.Requests == nil {
		r.domain.Resources.Requests = corev1.ResourceList{}
	}
	return r.domain.Resources.Requests
}

// webhookDefaultCPURequest is the cpuRequest that KubeVirt treats as unset.
const webhookDefaultCPURequest = "100m"

func (r *renderer) setCPURequest() {
	resources := r.domain.Resources
	if limit := resources.Limits[corev1.ResourceCPU]; !limit.IsZero() &&
		resources.Requests.Cpu().IsZero() {
		r.requests()[corev1.ResourceCPU] = limit
	}
	_, has := resources.Requests[corev1.ResourceCPU]
	set := r.config.CPURequest
	if has || set == nil || r.vmi.IsCPUDedicated() ||
		set.Cmp(resource.MustParse(webhookDefaultCPURequest)) == 0 {
		return
	}
	r.requests()[corev1.ResourceCPU] = *set
}

// webhookSetsMemory reports whether this version's webhook sets the memory request, which the
// overhead of page tables depends on. Since 1.6.4 only the pod gets the request.
func (r *renderer) webhookSetsMemory() bool { return !r.since("1.6.4") }

// since reports whether the cluster's KubeVirt is of a version, or newer.
func (r *renderer) since(version string) bool {
	v, err := kubevirt.ParseVersion(version)
	return err == nil && r.Cluster.Version.Compare(v) >= 0
}

// setMemoryRequest sets a missing memory request.
func (r *renderer) setMemoryRequest(requests corev1.ResourceList) {
	if had := requests[corev1.ResourceMemory]; !had.IsZero() {
		return
	}
	if limit := r.domain.Resources.Limits[corev1.ResourceMemory]; !limit.IsZero() {
		requests[corev1.ResourceMemory] = limit
		return
	}
	guest := r.guestOrPage()
	if guest == nil || guest.Sign() <= 0 {
		return
	}
	if r.developer.MemoryOvercommit != defaultMemoryOvercommit {
		guest = resource.NewQuantity(guest.Value()*100/int64(r.developer.MemoryOvercommit),
			guest.Format)
	}
	requests[corev1.ResourceMemory] = *guest
}

// guestOrPage returns the guest's memory, or else one huge page; nil if neither is set.
func (r *renderer) guestOrPage() *resource.Quantity {
	memory := r.domain.Memory
	if memory == nil {
		return nil
	}
	if memory.Guest != nil {
		return memory.Guest
	}
	if memory.Hugepages != nil {
		if page, err := resource.ParseQuantity(memory.Hugepages.PageSize); err == nil {
			return &page
		}
	}
	return nil
}

func (r *renderer) setGuestMemory() {
	if r.domain.Memory == nil {
		r.domain.Memory = &kubevirtv1.Memory{}
	}
	memory, resources := r.domain.Memory, r.domain.Resources
	switch {
	case memory.Guest != nil:
	case !resources.Requests.Memory().IsZero():
		memory.Guest = new(resources.Requests.Memory().DeepCopy())
	case !resources.Limits.Memory().IsZero():
		memory.Guest = new(resources.Limits.Memory().DeepCopy())
	default:
		memory.Guest = r.guestOrPage()
	}
}

func (r *renderer) setTopology() {
	if r.domain.CPU == nil {
		r.domain.CPU = &kubevirtv1.CPU{}
	}
	cpu := r.domain.CPU
	if cpu.Sockets|cpu.Cores|cpu.Threads != 0 {
		return
	}
	sockets := int64(1)
	if limit, ok := r.domain.Resources.Limits[corev1.ResourceCPU]; ok {
		sockets = limit.Value()
	} else if request, ok := r.domain.Resources.Requests[corev1.ResourceCPU]; ok {
		sockets = request.Value()
	}
	cpu.Sockets, cpu.Cores, cpu.Threads = uint32(sockets), 1, 1
}

// addDefaultInterface adds the default interface unless the instance has one or declines it. The
// binding does not matter for the size.
func addDefaultInterface(spec *kubevirtv1.VirtualMachineInstanceSpec) {
	devices := &spec.Domain.Devices
	if !isNot(devices.AutoattachPodInterface, false) ||
		len(spec.Networks)+len(devices.Interfaces) > 0 {
		return
	}
	devices.Interfaces = []kubevirtv1.Interface{*kubevirtv1.DefaultMasqueradeNetworkInterface()}
	spec.Networks = []kubevirtv1.Network{*kubevirtv1.DefaultPodNetwork()}
}

// isNot reports whether a setting is unset or has a different value.
func isNot(setting *bool, value bool) bool { return setting == nil || *setting != value }
