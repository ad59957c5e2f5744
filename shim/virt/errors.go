package virt

import "errors"

// More errors that callers tell apart.
var (
	// ErrNoDevice: the domain has no such device.
	ErrNoDevice = errors.New("no such device")

	// ErrUnconfirmed: the order was given, and the guest or its agent did not answer
	// in libvirt's time. It may still follow.
	ErrUnconfirmed = errors.New("not confirmed by the guest")
)
