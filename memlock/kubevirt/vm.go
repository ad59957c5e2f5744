package kubevirt

import (
	"errors"
	"fmt"
	"math"

	"github.com/mooring-vm/mooring/api"
)

// VM holds the fields of a VirtualMachineInstance that the overhead depends on. Comments name the
// field below spec.domain, or its full path below the object. The zero value has one vCPU with
// graphics and no memory.
type VM struct {
	Memory Memory
	CPU    CPU

	// from a VirtualMachine's template, without the defaults of KubeVirt's webhook
	Template     bool
	Architecture string // spec.architecture; empty is amd64
	NoGraphics   bool   // devices.autoattachGraphicsDevice is false
	TPM          TPM    // devices.tpm

	HostDevices int // devices.hostDevices
	GPUs        int // devices.gpus
	SRIOV       int // devices.interfaces with sriov
	Passt       int // devices.interfaces with passt and without ports

	// Plugins and Hooks are names in quotes, separated by commas: of network binding plugins in
	// devices.interfaces, and of hook sidecars other than Mooring's. They change the domain in ways
	// that the object does not show.
	Plugins, Hooks string

	SEV bool // launchSecurity.sev, also SEV-ES
	SNP bool // launchSecurity.snp

	DownwardMetrics bool // spec.volumes has a downwardMetrics
	LivenessExec    bool // spec.livenessProbe.exec
	ReadinessExec   bool // spec.readinessProbe.exec
}

// Memory is a VM's memory in bytes; 0 means unset.
type Memory struct {
	Request  int64 // resources.requests.memory
	Limit    int64 // resources.limits.memory
	Guest    int64 // memory.guest
	MaxGuest int64 // memory.maxGuest
	HugePage int64 // memory.hugepages.pageSize

	AddedOverhead int64 // memory.reservedOverhead.addedOverhead
	LockRequired  bool  // memory.reservedOverhead.memLock is Required
}

// CPU is a VM's processor; 0 means unset.
type CPU struct {
	Sockets, Cores, Threads uint32 // of cpu

	RequestMilli int64 // resources.requests.cpu, in thousandths of a CPU
	LimitMilli   int64 // resources.limits.cpu, likewise

	Dedicated bool // cpu.dedicatedCpuPlacement
	Realtime  bool // cpu.realtime is there
}

// TPM is the state of a VM's TPM.
type TPM int

// The TPMs. A disabled one has "enabled: false", which KubeVirt knows since 1.4.1 and, again, since
// 1.5.1. Older versions treat it as enabled.
const (
	NoTPM TPM = iota
	DisabledTPM
	EnabledTPM
)

// LargestGuest returns the guest's largest memory in bytes, and its field: maxGuest, or else the
// initial memory from guest, requests.memory, limits.memory or a huge page. The error is a VM
// without memory.
func (m Memory) LargestGuest() (bytes int64, field string, err error) {
	for _, f := range []amount{
		{"memory.maxGuest", m.MaxGuest}, {"memory.guest", m.Guest},
		{"resources.requests.memory", m.Request},
		{"resources.limits.memory", m.Limit}, {"memory.hugepages.pageSize", m.HugePage},
	} {
		if f.value > 0 {
			return f.value, f.field, nil
		}
	}
	return 0, "",
		errors.New("the VM has no memory: want memory.guest, resources.requests.memory, " +
			"resources.limits.memory or memory.hugepages.pageSize in spec.domain")
}

// devices returns the number of devices passed through with VFIO.
func (vm VM) devices() int {
	return vm.HostDevices + vm.GPUs + vm.SRIOV
}

// vcpus returns the product of the topology. Without one it is, as in KubeVirt, the CPU limit or
// else the request, rounded up, or else 1.
func (c CPU) vcpus() (int64, error) {
	n := int64(1)
	switch {
	case c.Sockets|c.Cores|c.Threads != 0:
	case c.LimitMilli > 0:
		n = thousands(c.LimitMilli)
	case c.RequestMilli > 0:
		n = thousands(c.RequestMilli)
	}
	for _, factor := range []uint32{c.Sockets, c.Cores, c.Threads} {
		if n <= math.MaxUint32 {
			n *= max(1, int64(factor))
		}
	}
	if n > math.MaxUint32 {
		return 0,
			fmt.Errorf("domain.cpu: more than %d vCPUs, which is the most that KubeVirt can count",
				int64(math.MaxUint32))
	}
	return n, nil
}

// amount is a number and its field.
type amount struct {
	field string
	value int64
}

// Check returns an error for values that no VirtualMachineInstance can have: a negative number,
// more guest memory than maxGuest, an unknown architecture. The error names the field.
func (vm VM) Check() error {
	m := vm.Memory
	for _, f := range []amount{
		{"resources.requests.memory", m.Request}, {"resources.limits.memory", m.Limit},
		{"memory.guest", m.Guest}, {"memory.maxGuest", m.MaxGuest},
		{"memory.hugepages.pageSize", m.HugePage},
		{"memory.reservedOverhead.addedOverhead", m.AddedOverhead},
		{"resources.requests.cpu", vm.CPU.RequestMilli},
		{"resources.limits.cpu", vm.CPU.LimitMilli},
		{"devices.hostDevices", int64(vm.HostDevices)}, {"devices.gpus", int64(vm.GPUs)},
		{"devices.interfaces with sriov", int64(vm.SRIOV)},
		{"devices.interfaces with passt", int64(vm.Passt)},
	} {
		if f.value < 0 {
			return fmt.Errorf("domain.%s: %d: want no less than 0", f.field, f.value)
		}
	}
	if m.MaxGuest > 0 && m.Guest > m.MaxGuest {
		return fmt.Errorf("domain.memory.guest: %q: want at most memory.maxGuest, which is %s",
			api.Bytes(m.Guest), api.Bytes(m.MaxGuest))
	}
	if vm.Architecture == "" {
		return nil
	}
	if err := CheckArchitecture(vm.Architecture); err != nil {
		return fmt.Errorf("architecture: %w", err)
	}
	return nil
}

// CheckArchitecture returns an error unless KubeVirt knows the architecture.
func CheckArchitecture(name string) error {
	switch name {
	case "amd64", arm64, "s390x", "ppc64le":
		return nil
	}
	return fmt.Errorf("%q: want amd64, arm64, s390x or ppc64le", name)
}

// thousands returns n / 1000, rounded up, for n from 0 on.
func thousands(n int64) int64 {
	if n%1000 > 0 {
		return n/1000 + 1
	}
	return n / 1000
}
