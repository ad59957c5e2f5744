package memlock

import (
	"errors"

	"github.com/mooring-vm/mooring/api"
)

// Input holds the sizes and requests of one launcher container.
type Input struct {
	// Request is the parsed form of the pod's annotations.
	Request api.Request

	// ContainerMemoryLimit is the launcher container's memory limit in bytes. 0 means no limit, and
	// so does the -1 of the OCI runtime specification.
	ContainerMemoryLimit int64

	// Overhead is the launcher's memory beyond the guest's. ForLauncher adds it to the guest's
	// memory only, because a memory limit includes it.
	Overhead []Term
}

// ForLauncher computes a launcher container's limit of locked memory (RLIMIT_MEMLOCK, soft and
// hard) by the rule of [VEP144]. The base is
//
//	guest-memory + overhead      with the annotation guest-memory
//	container memory limit       without it
//
// A desired size of the VM counts if it is larger than guest-memory: the VM has it already if the
// launcher is the target of a migration.
//
// With devices, the limit is at least libvirt's limit for them ([ForDevices]). With the value
// "unlimited" a required limit is infinite.
//
// The errors are: neither guest memory nor a memory limit, and a limit beyond an int64. Their texts
// contain a remedy.
func ForLauncher(in Input) (Result, error) {
	r := in.Request
	d := Demand{RequiresLock: requiresLock(r), Implicit: r.Devices.Any()}
	if r.Value != nil {
		d.Value = *r.Value
	}
	if !Required(r) {
		return VEP144(d, notRequiredReason(r))
	}
	if d.Value.Unlimited { // needs no memory to compute from
		return VEP144(d, requiredReason(r))
	}
	var err error
	if d.Base, d.Minimum, err = base(in); err != nil {
		return Result{}, err
	}
	result, err := VEP144(d, requiredReason(r))
	if err != nil || len(d.Minimum) == 0 {
		return result, err
	}
	result.Libvirt, err = Total(append(d.Minimum, Term{"value", d.Value.Bytes}))
	return result, err
}

// Required reports whether a launcher requests a lock of any size.
func Required(r api.Request) bool { return requiresLock(r) || r.Devices.Any() }

func requiresLock(r api.Request) bool {
	return r.RequiresLock != nil && *r.RequiresLock
}

// base returns the terms of the VM's own lock, and those of libvirt's limit.
func base(in Input) (own, libvirt []Term, err error) {
	var memory Term
	switch {
	case in.Request.GuestMemory != nil:
		memory = Term{"guest memory", *in.Request.GuestMemory}
		if size := int64(in.Request.Size.Memory); size > memory.Bytes {
			memory = Term{"resized guest memory", size}
		}
		own = append([]Term{memory}, in.Overhead...)
	case in.ContainerMemoryLimit > 0:
		memory = Term{"container memory limit", in.ContainerMemoryLimit}
		own = []Term{memory}
	default:
		return nil, nil, errors.New("memory lock: nothing to compute it from: " +
			"add the annotation " + api.GuestMemoryKey + " or give the container a memory limit")
	}
	libvirt, err = ForDevices(memory, in.Request.Devices)
	return own, libvirt, err
}

// requiredReason says why a lock is required.
func requiredReason(r api.Request) string {
	if r.Devices.Any() {
		return "devices pin the VM's memory (" + r.Devices.String() + ")"
	}
	return api.RequiresLockKey + " is true"
}

// notRequiredReason says why no lock is required.
func notRequiredReason(r api.Request) string {
	switch {
	case r.RequiresLock != nil:
		return api.RequiresLockKey + " is false, and no device is given"
	case r.Value != nil:
		return api.ValueKey + " is given, but neither " + api.RequiresLockKey +
			" nor a device that it adds to"
	}
	return "nothing asks for it"
}
