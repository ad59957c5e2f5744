package vmi

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
)

// FromVMI reads the VM from the spec of a VirtualMachineInstance, from the cluster or from a
// person.
//
// The errors name the field. They are: a negative amount, a meaningless zero, an amount beyond an
// int64, more guest memory than maxGuest, an unknown architecture or memLock, and a nil object.
// Fractions of a byte and of a thousandth of a CPU are rounded up, as in KubeVirt and Kubernetes.
func FromVMI(vmi *v1.VirtualMachineInstance) (kubevirt.VM, error) {
	if vmi == nil {
		return kubevirt.VM{}, errors.New("no VirtualMachineInstance")
	}
	return fromSpec(&vmi.Spec, vmi.Annotations, "spec")
}

// fromSpec reads a spec that is at path. annotations are the VirtualMachineInstance's.
func fromSpec(
	spec *v1.VirtualMachineInstanceSpec, annotations map[string]string, path string,
) (kubevirt.VM, error) {
	domain := &spec.Domain
	vm := kubevirt.VM{
		Architecture:    spec.Architecture,
		NoGraphics:      isFalse(domain.Devices.AutoattachGraphicsDevice),
		TPM:             tpmOf(domain.Devices.TPM),
		HostDevices:     len(domain.Devices.HostDevices),
		GPUs:            len(domain.Devices.GPUs),
		LivenessExec:    spec.LivenessProbe != nil && spec.LivenessProbe.Exec != nil,
		ReadinessExec:   spec.ReadinessProbe != nil && spec.ReadinessProbe.Exec != nil,
		DownwardMetrics: hasDownwardMetrics(spec.Volumes),
		Plugins:         plugins(domain.Devices.Interfaces),
		Hooks:           foreignHooks(annotations),
	}
	for _, i := range domain.Devices.Interfaces {
		if i.SRIOV != nil {
			vm.SRIOV++
		}
		if i.DeprecatedPasst != nil && len(i.Ports) == 0 {
			vm.Passt++
		}
	}
	if s := domain.LaunchSecurity; s != nil {
		vm.SEV, vm.SNP = s.SEV != nil, s.SNP != nil
	}
	a := amounts{path: path}
	a.memory(&vm.Memory, domain)
	a.cpu(&vm.CPU, domain)
	if err := vm.Check(); err != nil {
		a.faults = append(a.faults, fmt.Errorf("%s.%w", path, err))
	}
	if len(a.faults) > 0 {
		return kubevirt.VM{}, errors.Join(a.faults...)
	}
	return vm, nil
}

// plugins returns the names of network binding plugins in quotes, each once.
func plugins(interfaces []v1.Interface) string {
	var names []string
	for _, i := range interfaces {
		if i.Binding != nil {
			names = append(names, i.Binding.Name)
		}
	}
	return quoted(names)
}

// quoted returns names in quotes, sorted and each once.
func quoted(names []string) string {
	slices.Sort(names)
	names = slices.Compact(names)
	for i, name := range names {
		names[i] = api.Quote(name)
	}
	return strings.Join(names, ", ")
}

func isFalse(b *bool) bool {
	return b != nil && !*b
}

func tpmOf(device *v1.TPMDevice) kubevirt.TPM {
	switch {
	case device == nil:
		return kubevirt.NoTPM
	case isFalse(device.Enabled):
		return kubevirt.DisabledTPM
	}
	return kubevirt.EnabledTPM
}

func hasDownwardMetrics(volumes []v1.Volume) bool {
	for _, volume := range volumes {
		if volume.DownwardMetrics != nil {
			return true
		}
	}
	return false
}

// leastFraction is the least amount of memory with a fraction of a byte, in bytes. Less is a
// mistake, such as 100m for 100M. Fractions of large amounts are usual: 0.3Gi is one.
const leastFraction = 1000

// amounts reads quantities and collects their faults.
type amounts struct {
	path   string
	faults []error
}

func (a *amounts) memory(m *kubevirt.Memory, domain *v1.DomainSpec) {
	a.readResource(&m.Request, "requests", domain.Resources.Requests, corev1.ResourceMemory)
	a.readResource(&m.Limit, "limits", domain.Resources.Limits, corev1.ResourceMemory)
	memory := domain.Memory
	if memory == nil {
		return
	}
	a.readMemory(&m.Guest, "memory.guest", memory.Guest)
	a.readMemory(&m.MaxGuest, "memory.maxGuest", memory.MaxGuest)
	if memory.Hugepages != nil {
		size, err := resource.ParseQuantity(memory.Hugepages.PageSize)
		if err != nil {
			a.fail("memory.hugepages.pageSize", memory.Hugepages.PageSize,
				"a size such as 2Mi or 1Gi")
		} else {
			a.read(&m.HugePage, "memory.hugepages.pageSize", &size, 0)
		}
	}
	if r := memory.ReservedOverhead; r != nil {
		if r.AddedOverhead != nil && !r.AddedOverhead.IsZero() {
			a.read(&m.AddedOverhead, "memory.reservedOverhead.addedOverhead", r.AddedOverhead, 0)
		}
		m.LockRequired = a.lock(r.MemLock)
	}
}

func (a *amounts) cpu(c *kubevirt.CPU, domain *v1.DomainSpec) {
	// KubeVirt also takes a request of 0 as none.
	if request := domain.Resources.Requests.Cpu(); !request.IsZero() {
		a.readResource(&c.RequestMilli, "requests", domain.Resources.Requests, corev1.ResourceCPU)
	}
	a.readResource(&c.LimitMilli, "limits", domain.Resources.Limits, corev1.ResourceCPU)
	if cpu := domain.CPU; cpu != nil {
		c.Sockets, c.Cores, c.Threads = cpu.Sockets, cpu.Cores, cpu.Threads
		c.Dedicated = cpu.DedicatedCPUPlacement
		c.Realtime = cpu.Realtime != nil
	}
}

// readResource reads an amount of resources.requests or resources.limits.
func (a *amounts) readResource(
	to *int64, list string, of corev1.ResourceList, name corev1.ResourceName,
) {
	q, ok := of[name]
	field := fmt.Sprintf("resources.%s.%s", list, name)
	switch {
	case !ok:
	case name == corev1.ResourceCPU:
		a.read(to, field, &q, resource.Milli)
	default:
		a.readMemory(to, field, &q)
	}
}

// readMemory reads an amount of memory. It refuses a fraction of a byte below [leastFraction].
func (a *amounts) readMemory(to *int64, field string, q *resource.Quantity) {
	if q != nil && q.Sign() > 0 && q.CmpInt64(leastFraction) < 0 && q.CmpInt64(q.Value()) != 0 {
		a.fail(field, q.String(), "whole bytes: the unit m is a thousandth of a byte")
		return
	}
	a.read(to, field, q, 0)
}

// read reads an optional amount. ParseQuantity caps at MaxInt64, so this value may mean "more".
func (a *amounts) read(to *int64, field string, q *resource.Quantity, scale resource.Scale) {
	switch {
	case q == nil:
	case q.Sign() <= 0:
		a.fail(field, q.String(), "more than 0, or no such field")
	case q.Cmp(*resource.NewScaledQuantity(math.MaxInt64, scale)) >= 0:
		a.fail(field, q.String(),
			fmt.Sprintf("less than %s", resource.NewScaledQuantity(math.MaxInt64, scale)))
	default:
		*to = q.ScaledValue(scale)
	}
}

func (a *amounts) lock(m *v1.MemLockRequirement) bool {
	switch {
	case m == nil || *m == v1.MemLockNotRequired:
		return false
	case *m != v1.MemLockRequired:
		a.fail("memory.reservedOverhead.memLock", string(*m),
			fmt.Sprintf("%s or %s", v1.MemLockRequired, v1.MemLockNotRequired))
	}
	return true
}

func (a *amounts) fail(field, value, want string) {
	a.faults = append(a.faults, fmt.Errorf("%s.domain.%s: %q: want %s", a.path, field, value, want))
}
