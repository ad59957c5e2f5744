// Package memlock computes how much memory a VM's processes must be able to
// lock. It is arithmetic on numbers it is given: it reads no files, knows no
// processes, and its functions may be called from several goroutines at once.
package memlock

import (
	"errors"
	"fmt"
	"math"

	"github.com/mooring-vm/mooring/api"
)

// ioAllowance is what libvirt grants beyond the guest's memory for the I/O
// memory of passed-through devices (qemuDomainGetMemLockLimitBytes).
const ioAllowance = 1 << 30

// Input is what the computation starts from.
type Input struct {
	// Request is what the pod's annotations ask for.
	Request api.Request

	// ContainerMemoryLimit is the launcher container's memory limit in bytes.
	// 0, and the -1 of the OCI runtime specification, mean that there is none.
	ContainerMemoryLimit int64
}

// Term is one summand of a limit, named for people. Bytes is never negative.
type Term struct {
	Name  string
	Bytes int64
}

// Result is a computed limit. Where Required is false nothing is to be set, and
// all but Reason is zero.
type Result struct {
	Required  bool   // a limit is to be set:
	Unlimited bool   // to infinity, with Bytes 0 and no Terms; or else
	Bytes     int64  // to this, the sum of Terms
	Terms     []Term // what Bytes is made of
	Reason    string // one sentence for people on why it is so
}

// ForLauncher computes the limit of locked memory (RLIMIT_MEMLOCK, soft and
// hard) that a launcher container needs.
//
// A limit is required when requires-lock is true or a device is given: VEP 144
// of KubeVirt only ever adds to what the VM demands by itself. With the value
// "unlimited" it is infinite, else it is base + value, where base is
//
//	with devices:     factor × memory + 1 GiB, as libvirt computes it
//	without devices:  memory
//
// factor is the number of vDPA and NVMe devices, plus one for all VFIO devices
// together, or one for each of them when the VM has a virtual IOMMU. memory is
// the guest's, where the annotations tell it, else the container's memory limit.
//
// The errors are: neither guest memory nor a container limit to compute from,
// and a limit beyond an int64. Both are for people: they say what to change.
func ForLauncher(in Input) (Result, error) {
	r := in.Request
	if !required(r) {
		return Result{Reason: notRequired(r)}, nil
	}
	if r.Value != nil && r.Value.Unlimited {
		return Result{Required: true, Unlimited: true, Reason: because(r) + `, and the value is "unlimited"`}, nil
	}
	terms, err := base(in)
	if err != nil {
		return Result{}, err
	}
	if r.Value != nil && r.Value.Bytes > 0 {
		terms = append(terms, Term{"value", r.Value.Bytes})
	}
	total, err := sum(terms)
	if err != nil {
		return Result{}, err
	}
	return Result{Required: true, Bytes: total, Terms: terms, Reason: because(r)}, nil
}

func required(r api.Request) bool {
	return asked(r) || r.Devices.Any()
}

func asked(r api.Request) bool {
	return r.RequiresLock != nil && *r.RequiresLock
}

// base returns the terms of what the VM itself locks.
func base(in Input) ([]Term, error) {
	memory, err := memory(in)
	if err != nil || !in.Request.Devices.Any() {
		return []Term{memory}, err
	}
	n := factor(in.Request.Devices)
	if memory.Bytes > math.MaxInt64/n {
		return nil, fmt.Errorf("memory lock: %d x %s (%s) is more than an int64 holds",
			n, api.Bytes(memory.Bytes), memory.Name)
	}
	if n > 1 {
		memory = Term{fmt.Sprintf("%d x %s", n, memory.Name), n * memory.Bytes}
	}
	return []Term{memory, {"libvirt's allowance for device I/O", ioAllowance}}, nil
}

// memory returns what the computation starts from.
func memory(in Input) (Term, error) {
	switch {
	case in.Request.GuestMemory != nil:
		return Term{"guest memory", *in.Request.GuestMemory}, nil
	case in.ContainerMemoryLimit > 0:
		return Term{"container memory limit", in.ContainerMemoryLimit}, nil
	}
	return Term{}, errors.New("memory lock: nothing to compute it from: add the annotation " + api.GuestMemoryKey +
		" or give the container a memory limit")
}

// factor is how many times libvirt counts the guest's memory. It is at least 1
// when there is a device.
func factor(d api.Devices) int64 {
	n := int64(d.VDPA) + int64(d.NVMe)
	switch {
	case d.VFIO > 0 && d.IOMMU:
		n += int64(d.VFIO)
	case d.VFIO > 0:
		n++
	}
	return n
}

func sum(terms []Term) (int64, error) {
	var total int64
	for _, t := range terms {
		if t.Bytes > math.MaxInt64-total {
			return 0, fmt.Errorf("memory lock: %s more for %s is more than an int64 holds", api.Bytes(t.Bytes), t.Name)
		}
		total += t.Bytes
	}
	return total, nil
}

// because says why a lock is required.
func because(r api.Request) string {
	if r.Devices.Any() {
		return "devices pin the VM's memory (" + r.Devices.String() + ")"
	}
	return api.RequiresLockKey + " is true"
}

// notRequired says why no lock is required.
func notRequired(r api.Request) string {
	switch {
	case r.RequiresLock != nil:
		return api.RequiresLockKey + " is false, and no device is given"
	case r.Value != nil:
		return api.ValueKey + " is given, but neither " + api.RequiresLockKey + " nor a device that it adds to"
	}
	return "nothing asks for it"
}
