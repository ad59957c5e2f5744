package memlock

import "github.com/mooring-vm/mooring/api"

// Demand is what a VM's memory lock is computed from, in the words of KubeVirt's
// VEP 144 (https://github.com/kubevirt/enhancements, veps/sig-compute/144-memory-lock-rlimits).
type Demand struct {
	// RequiresLock is VEP 144's requiresLock (in KubeVirt's API, memLock:
	// Required). False is the same as absent.
	RequiresLock bool

	// Value is VEP 144's value (in KubeVirt's API, addedOverhead): lockable
	// memory beyond the VM's own.
	Value api.Lockable

	// Existing is set where the VM demands a lock by itself: for VFIO, SEV or
	// real time in KubeVirt, for passed-through devices in libvirt.
	Existing bool

	// Base is what the VM itself can lock: the guest's memory at the largest
	// size that the VM may become, and the launcher's overhead.
	Base []Term

	// Least is what the existing conditions give, where that is computed in
	// another way than Base. The base is never lower.
	Least []Term

	// Libvirt is libvirt's own limit for the domain, where the domain is
	// known. The result is never lower: libvirt would fail to set it.
	Libvirt Result
}

// VEP144 computes a memory lock by the rule of VEP 144:
//
//	requiresLock    value     otherwise            with VFIO, SEV, real time
//	absent, false   absent    nothing              base
//	absent, false   given     nothing              base + value
//	true            absent    base                 base
//	true            given     base + value         base + value
//
// The VEP only ever adds: the existing conditions hold whatever it says, and its
// value is added to what they give. A VM for which libvirt sets a limit by itself
// (vDPA, NVMe, <locked/>) has at least that one.
//
// reason says why, in a sentence. The error is a sum beyond an int64.
func VEP144(d Demand, reason string) (Result, error) {
	if !d.RequiresLock && !d.Existing {
		return atLeast(d.Libvirt, Result{Reason: reason}), nil
	}
	if d.Value.Unlimited {
		return Infinite(reason + `, and the value is "unlimited"`), nil
	}
	terms, err := larger(d.Base, d.Least)
	if err != nil {
		return Result{}, err
	}
	if d.Value.Bytes > 0 {
		terms = append(terms, Term{"value", d.Value.Bytes})
	}
	r, err := Limited(reason, terms...)
	if err != nil {
		return Result{}, err
	}
	return atLeast(d.Libvirt, r), nil
}

// atLeast returns r, or libvirt's limit where r does not cover that.
func atLeast(libvirt, r Result) Result {
	if r.Covers(libvirt) {
		return r
	}
	return libvirt
}

// larger returns a copy of the terms with the larger total.
func larger(a, b []Term) ([]Term, error) {
	totalA, err := Total(a)
	if err != nil {
		return nil, err
	}
	totalB, err := Total(b)
	if err != nil {
		return nil, err
	}
	if totalB > totalA {
		a = b
	}
	return append([]Term(nil), a...), nil
}
