package virt

import "errors"

// The errors of connections and domains, for errors.Is.
var (
	// ErrNoDomain: libvirt knows no such domain.
	ErrNoDomain = errors.New("no such domain")

	// ErrNotRunning: the call needs a running domain.
	ErrNotRunning = errors.New("the domain does not run")

	// ErrUnsupported: this libvirt, hypervisor or domain does not support the call.
	ErrUnsupported = errors.New("not supported")

	// ErrConnection: libvirt is away, and the call may or may not have been executed. The error
	// gives no information about the domain.
	ErrConnection = errors.New("no connection to libvirt")

	// ErrNoDevice: the domain has no such device.
	ErrNoDevice = errors.New("no such device")

	// ErrUnconfirmed: libvirt accepted the call, but the guest or its agent did not answer before
	// libvirt's timeout. The guest may still act later.
	ErrUnconfirmed = errors.New("not confirmed by the guest")
)
