package kubevirt

import (
	"fmt"
	"slices"

	"github.com/mooring-vm/mooring/memlock"
)

// Overhead computes the memory that KubeVirt, in the given version, adds to a VM's memory for its
// launcher pod. It returns the terms other than 0 in KubeVirt's order, and their sum in bytes. The
// formula is GetMemoryOverhead's, see the package. Fields that the version does not know do not
// count.
//
// The errors are: an impossible VM, the zero Version, a ratio for a version without one, and a sum
// beyond an int64.
func Overhead(vm VM, version Version, ratio Ratio) ([]memlock.Term, int64, error) {
	terms, err := overhead(vm, version, ratio)
	if err != nil {
		return nil, 0, fmt.Errorf("overhead of KubeVirt's launcher: %w", err)
	}
	total, err := memlock.Total(terms)
	if err != nil {
		return nil, 0, fmt.Errorf("overhead of KubeVirt's launcher: %w", err)
	}
	return terms, total, nil
}

func overhead(vm VM, version Version, ratio Ratio) ([]memlock.Term, error) {
	row, err := releaseOf(version)
	if err != nil {
		return nil, err
	}
	if err := vm.Check(); err != nil {
		return nil, err
	}
	vcpus, err := vm.CPU.vcpus()
	if err != nil {
		return nil, err
	}
	vm = row.withDefaults(vm)
	terms := append(row.processes(vm, vcpus), row.devices(vm)...)
	last := row.exclusiveTerms(vm)
	if row.has(exclusiveInRatio) {
		terms, last = append(terms, last...), nil
	}
	if row.has(countsReserved) {
		terms = append(terms,
			memlock.Term{Name: "reserved overhead", Bytes: vm.Memory.AddedOverhead})
	}
	terms, err = row.multiply(terms, version, ratio)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(append(terms, last...),
		func(t memlock.Term) bool { return t.Bytes == 0 }), nil
}

// withDefaults adds the defaults of KubeVirt's webhook, as far as later steps read them.
func (r release) withDefaults(vm VM) VM {
	if vm.CPU.RequestMilli == 0 {
		vm.CPU.RequestMilli = vm.CPU.LimitMilli
	}
	if m := &vm.Memory; !r.has(noDefaults) && m.Request == 0 {
		switch {
		case m.Limit > 0:
			m.Request = m.Limit
		case m.Guest > 0:
			m.Request = m.Guest
		default:
			m.Request = m.HugePage
		}
	}
	return vm
}

// processes returns the terms of every VM.
func (r release) processes(vm VM, vcpus int64) []memlock.Term {
	daemon := "virtqemud"
	if r.has(asLibvirtd) {
		daemon = "libvirtd"
	}
	terms := []memlock.Term{
		// * 1000 may overflow
		{Name: "page tables", Bytes: thousands(vm.Memory.Request) * (1000 / 8) / (pageTableOf / 8)},
		{Name: "virt-launcher-monitor", Bytes: monitor},
		{Name: "virt-launcher", Bytes: r.launcher * mi},
		{Name: "virtlogd", Bytes: r.virtlogd * mi},
		{Name: daemon, Bytes: r.daemon * mi},
		{Name: "qemu", Bytes: r.qemu * mi},
		{Name: count(int(vcpus), "vCPU"), Bytes: vcpus * perVCPU},
		{Name: "I/O thread", Bytes: ioThread},
	}
	if !vm.NoGraphics {
		terms = append(terms, memlock.Term{Name: "graphics", Bytes: r.graphics * mi})
	}
	return terms
}

// devices returns the terms of optional parts, in the order of KubeVirt's function.
func (r release) devices(vm VM) []memlock.Term {
	var terms []memlock.Term
	add := func(name string, counts bool, bytes int64) {
		if counts {
			terms = append(terms, memlock.Term{Name: name, Bytes: bytes})
		}
	}
	add("arm64 flash", vm.Architecture == arm64, arm64Flash)
	add("VFIO devices", vm.devices() > 0, vfio)
	add("downward metrics", vm.DownwardMetrics, downward)
	add("liveness probe", vm.LivenessExec, eachProbe)
	add("readiness probe", vm.ReadinessExec, eachProbe)
	add("probe program", vm.LivenessExec || vm.ReadinessExec, firstProbe)
	add("SEV", vm.SEV || vm.SNP && r.has(countsSNP), sev)
	add("TPM", vm.TPM == EnabledTPM || vm.TPM == DisabledTPM && !r.has(disablesTPM), swtpm)
	add(count(vm.Passt, "passt interface"), r.has(countsPasst) && vm.Passt > 0,
		int64(vm.Passt)*passtAll)
	return terms
}

// exclusiveTerms returns the grant for a VM with CPUs of its own.
func (r release) exclusiveTerms(vm VM) []memlock.Term {
	switch {
	case !r.has(exclusiveAfterRatio | exclusiveInRatio):
		return nil
	case vm.CPU.Dedicated:
		return []memlock.Term{{Name: "dedicated CPUs", Bytes: exclusive}}
	case r.guaranteed(vm):
		return []memlock.Term{{Name: "Guaranteed QoS", Bytes: exclusive}}
	}
	return nil
}

// guaranteed reports whether requests and limits give the pod the QoS class Guaranteed.
func (r release) guaranteed(vm VM) bool {
	m, c := vm.Memory, vm.CPU
	memory := m.Request > 0 && m.Request == m.Limit || r.has(noDefaults) &&
		m.Request == 0 && m.Limit > 0
	return memory && c.RequestMilli > 0 && c.RequestMilli == c.LimitMilli
}

// multiply appends the term of the ratio.
func (r release) multiply(
	terms []memlock.Term, version Version, ratio Ratio,
) ([]memlock.Term, error) {
	if ratio == (Ratio{}) {
		return terms, nil
	}
	if !r.has(hasRatio) {
		return nil, fmt.Errorf("KubeVirt %s knows no overhead ratio, so %s has no effect there: "+
			"want none, "+
			"or KubeVirt 0.58.2, 0.59.1 or newer", version, ratio)
	}
	sum, err := memlock.Total(terms)
	if err != nil {
		return nil, err
	}
	share, err := ratio.share(sum)
	if err != nil {
		return nil, err
	}
	return append(terms, share), nil
}

// count returns "1 NAME" or "n NAMEs".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
