package memlock

import (
	"errors"

	"github.com/mooring-vm/mooring/api"
)

// Input is what a launcher container's limit is computed from.
type Input struct {
	// Request is what the pod's annotations ask for.
	Request api.Request

	// ContainerMemoryLimit is the launcher container's memory limit in bytes.
	// 0, and the -1 of the OCI runtime specification, mean that there is none.
	ContainerMemoryLimit int64

	// Overhead is what the launcher needs beyond the guest's memory. It counts
	// where the guest's memory is known: a memory limit includes it.
	Overhead []Term
}

// ForLauncher computes the limit of locked memory (RLIMIT_MEMLOCK, soft and
// hard) that a launcher container needs, by the rule of [VEP144]. The base is
//
//	guest-memory + overhead      where the annotations tell the guest's memory
//	container memory limit       where they do not
//
// and with devices never less than what libvirt computes for them with that
// memory ([ForDevices]). With the value "unlimited" a required limit is infinite.
//
// The errors are: neither guest memory nor a container limit to compute from,
// and a limit beyond an int64. Both are for people: they say what to change.
func ForLauncher(in Input) (Result, error) {
	r := in.Request
	d := Demand{RequiresLock: asked(r), Existing: r.Devices.Any()}
	if r.Value != nil {
		d.Value = *r.Value
	}
	if !Required(r) {
		return VEP144(d, notRequired(r))
	}
	if d.Value.Unlimited { // needs no memory to compute from
		return VEP144(d, because(r))
	}
	var err error
	if d.Base, d.Least, err = base(in); err != nil {
		return Result{}, err
	}
	return VEP144(d, because(r))
}

// Required reports whether a launcher asks for a lock, of whatever size: only then is
// there anything to compute.
func Required(r api.Request) bool { return asked(r) || r.Devices.Any() }

func asked(r api.Request) bool {
	return r.RequiresLock != nil && *r.RequiresLock
}

// base returns the terms of what the VM itself locks, and what libvirt computes.
func base(in Input) (own, libvirt []Term, err error) {
	var memory Term
	switch {
	case in.Request.GuestMemory != nil:
		memory = Term{"guest memory", *in.Request.GuestMemory}
		own = append([]Term{memory}, in.Overhead...)
	case in.ContainerMemoryLimit > 0:
		memory = Term{"container memory limit", in.ContainerMemoryLimit}
		own = []Term{memory}
	default:
		return nil, nil, errors.New("memory lock: nothing to compute it from: add the annotation " + api.GuestMemoryKey +
			" or give the container a memory limit")
	}
	libvirt, err = ForDevices(memory, in.Request.Devices)
	return own, libvirt, err
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
