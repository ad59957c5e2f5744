package estimate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

// sizes are the resources of the container that the VM runs in. What is the VM's own goes
// before what is made up for it.
type sizes struct{ own, made corev1.ResourceRequirements }

func newSizes(of kubevirtv1.ResourceRequirements) sizes {
	own := corev1.ResourceRequirements{Limits: of.Limits.DeepCopy(), Requests: of.Requests.DeepCopy()}
	made := corev1.ResourceRequirements{}
	for _, r := range []*corev1.ResourceRequirements{&own, &made} {
		if r.Limits == nil {
			r.Limits = corev1.ResourceList{}
		}
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
	}
	return sizes{own, made}
}

func (s sizes) sum() corev1.ResourceRequirements {
	maps.Copy(s.made.Limits, s.own.Limits)
	maps.Copy(s.made.Requests, s.own.Requests)
	return s.made
}

// grow adds to an amount, which may be absent.
func grow(list corev1.ResourceList, name corev1.ResourceName, by resource.Quantity) {
	sum := list[name].DeepCopy()
	sum.Add(by)
	list[name] = sum
}

// growIf adds to an amount if there is one.
func growIf(list corev1.ResourceList, name corev1.ResourceName, by resource.Quantity) {
	if _, ok := list[name]; ok {
		grow(list, name, by)
	}
}

// ephemeralStorage is what KubeVirt adds for each container of disks.
const ephemeralStorage = "50M"

// compute sizes the container that the VM runs in, in KubeVirt's order.
func (r *renderer) compute(overhead resource.Quantity) corev1.ResourceRequirements {
	s := newSizes(r.domain.Resources)
	grow(s.own.Requests, corev1.ResourceEphemeralStorage, resource.MustParse(ephemeralStorage))
	growIf(s.own.Limits, corev1.ResourceEphemeralStorage, resource.MustParse(ephemeralStorage))
	r.virtualization(s)
	r.enterMemoryRequest(s.own.Requests)
	if r.vmi.IsCPUDedicated() {
		r.pin(s)
	} else {
		r.share(s)
	}
	if r.domain.Memory.Hugepages != nil {
		r.hugePages(s, overhead)
	} else {
		r.memory(s, overhead)
	}
	if r.lacksLimit(corev1.ResourceMemory) {
		request := s.own.Requests[corev1.ResourceMemory]
		s.made.Limits[corev1.ResourceMemory] = *resource.NewQuantity(int64(float64(request.Value())*r.limitRatio()), request.Format)
	}
	r.devices(s)
	return s.sum()
}

// vcpus is the product of what the topology says.
func (r *renderer) vcpus() int64 {
	n := int64(1)
	for _, factor := range []uint32{r.domain.CPU.Sockets, r.domain.CPU.Cores, r.domain.CPU.Threads} {
		n *= max(1, int64(factor))
	}
	return n
}

func (r *renderer) ioThreads() int64 {
	if t := r.domain.IOThreads; t != nil && t.SupplementalPoolThreadCount != nil {
		return int64(*t.SupplementalPoolThreadCount)
	}
	return 0
}

// share gives vCPUs their part of the node's CPUs.
func (r *renderer) share(s sizes) {
	cpus := r.vcpus() + r.ioThreads()
	if r.developer.CPUAllocationRatio < 0 {
		return
	}
	part := float64(cpus) / float64(r.developer.CPUAllocationRatio)
	text := fmt.Sprintf("%g", part)
	if part < 1 {
		text = fmt.Sprintf("%gm", part*1000) // as KubeVirt rounds
	}
	if q, err := resource.ParseQuantity(text); err == nil {
		s.made.Requests[corev1.ResourceCPU] = q
	}
	if r.lacksLimit(corev1.ResourceCPU) || r.autoCPULimit() {
		s.made.Limits[corev1.ResourceCPU] = *resource.NewQuantity(cpus, resource.DecimalSI)
	}
}

// pin gives each vCPU a CPU.
func (r *renderer) pin(s sizes) {
	cpus := r.vcpus() + r.ioThreads()
	if r.domain.CPU.IsolateEmulatorThread {
		cpus += r.emulatorThreads(cpus)
	}
	s.own.Limits[corev1.ResourceCPU] = *resource.NewQuantity(cpus, resource.DecimalSI)
	s.own.Requests[corev1.ResourceCPU] = *resource.NewQuantity(cpus, resource.DecimalSI)
	if memory, ok := s.own.Requests[corev1.ResourceMemory]; ok {
		s.own.Limits[corev1.ResourceMemory] = memory
	}
}

// emulatorThreads is 1, or 2 where that makes an even number and even is wanted. KubeVirt
// counts a supplemental pool's threads twice there.
func (r *renderer) emulatorThreads(cpus int64) int64 {
	if policy := r.domain.IOThreadsPolicy; policy != nil && *policy == kubevirtv1.IOThreadsPolicySupplementalPool {
		cpus += r.ioThreads()
	}
	if _, even := r.vmi.Annotations[kubevirtv1.EmulatorThreadCompleteToEvenParity]; even && cpus%2 == 0 {
		return 2
	}
	return 1
}

func (r *renderer) memory(s sizes, overhead resource.Quantity) {
	if !r.domain.Resources.OvercommitGuestOverhead {
		grow(s.own.Requests, corev1.ResourceMemory, overhead)
	}
	growIf(s.own.Limits, corev1.ResourceMemory, overhead)
}

// hugePages takes the guest's memory from huge pages. What is asked for beyond it remains
// memory, with the overhead.
func (r *renderer) hugePages(s sizes, overhead resource.Quantity) {
	name := corev1.ResourceName(corev1.ResourceHugePagesPrefix + r.domain.Memory.Hugepages.PageSize)
	request, guest := s.own.Requests[corev1.ResourceMemory], r.domain.Memory.Guest
	pages := request
	if guest != nil && request.Cmp(*guest) > 0 {
		pages = *guest
	}
	s.made.Requests[name], s.made.Limits[name] = pages, pages
	s.own.Requests[corev1.ResourceMemory] = beyond(request, guest, overhead)
	if limit, ok := s.own.Limits[corev1.ResourceMemory]; ok {
		s.own.Limits[corev1.ResourceMemory] = beyond(limit, guest, overhead)
	}
}

// beyond is what of an amount is more than the guest's, and the overhead.
func beyond(amount resource.Quantity, guest *resource.Quantity, overhead resource.Quantity) resource.Quantity {
	sum := overhead.DeepCopy()
	if guest != nil && amount.Cmp(*guest) > 0 {
		sum.Add(amount)
		sum.Sub(*guest)
	}
	return sum
}

// lacksLimit says whether KubeVirt makes up a limit: a quota wants one, and the VM has none.
func (r *renderer) lacksLimit(name corev1.ResourceName) bool {
	if _, has := r.domain.Resources.Limits[name]; has {
		return false
	}
	return slices.ContainsFunc(r.Quotas, func(q *corev1.ResourceQuota) bool {
		_, wants := q.Spec.Hard["limits."+name]
		return wants
	})
}

// autoCPULimit says whether the namespace is one in which VMs get a CPU limit.
func (r *renderer) autoCPULimit() bool {
	if _, has := r.domain.Resources.Limits[corev1.ResourceCPU]; has || r.config.AutoCPULimitNamespaceLabelSelector == nil || r.Namespace == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(r.config.AutoCPULimitNamespaceLabelSelector)
	return err == nil && selector.Matches(labels.Set(r.Namespace.Labels))
}

// defaultLimitRatio is what a made-up memory limit is of the request.
const defaultLimitRatio = 2.0

func (r *renderer) limitRatio() float64 {
	if r.Namespace == nil {
		return defaultLimitRatio
	}
	ratio, err := strconv.ParseFloat(r.Namespace.Labels[kubevirtv1.AutoMemoryLimitsRatioLabel], 64)
	if err != nil || ratio < 1 {
		return defaultLimitRatio
	}
	return ratio
}
