package memlock

import (
	"slices"

	"github.com/mooring-vm/mooring/api"
)

// Demand holds the inputs of a VM's memory lock, in the words of KubeVirt's VEP 144
// (https://github.com/kubevirt/enhancements, veps/sig-compute/144-memory-lock-rlimits).
type Demand struct {
	// RequiresLock is VEP 144's requiresLock (in KubeVirt's API, memLock: Required). False means
	// the same as absent.
	RequiresLock bool

	// Value is VEP 144's value (in KubeVirt's API, addedOverhead): lockable memory beyond the VM's
	// own.
	Value api.Lockable

	// Implicit is set when the VM needs a lock without a request: for VFIO, SEV or real time in
	// KubeVirt, for passed-through devices in libvirt.
	Implicit bool

	// Base is the VM's own lockable memory: the guest's memory at the VM's largest size, and the
	// launcher's overhead.
	Base []Term

	// Minimum is the lock of the implicit conditions, if another formula computes it. The result is
	// at least its total.
	Minimum []Term

	// Libvirt is libvirt's own limit for the domain, if the domain is known. The result is never
	// lower, because libvirt would fail to set its limit.
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
// The VEP only adds: implicit conditions hold in any case, and the value comes on top of them. A VM
// for which libvirt itself sets a limit (vDPA, NVMe, <locked/>) gets at least that limit.
//
// reason says why in one sentence. The error is a sum beyond an int64.
func VEP144(d Demand, reason string) (Result, error) {
	if !d.RequiresLock && !d.Implicit {
		return atLeast(d.Libvirt, Result{Reason: reason}), nil
	}
	if d.Value.Unlimited {
		return Infinite(reason + `, and the value is "unlimited"`), nil
	}
	terms, err := larger(d.Base, d.Minimum)
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

// atLeast returns r, or libvirt's limit where r does not cover that. The result lacks the missing
// inputs of both.
func atLeast(libvirt, r Result) Result {
	unknown := slices.Concat(r.Unknown, libvirt.Unknown)
	if !r.Covers(libvirt) {
		r = libvirt
	}
	r.Unknown = unknown
	return r
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
