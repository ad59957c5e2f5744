//go:build cgo && libvirt_dlopen

package libvirt

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"libvirt.org/go/libvirt"

	"github.com/mooring-vm/mooring/shim/virt"
)

// errorKinds maps the libvirt error codes whose meaning does not depend on the call.
var errorKinds = map[libvirt.ErrorNumber]error{
	libvirt.ERR_NO_DOMAIN:             virt.ErrNoDomain,
	libvirt.ERR_NO_SUPPORT:            virt.ErrUnsupported,
	libvirt.ERR_OPERATION_UNSUPPORTED: virt.ErrUnsupported,
	libvirt.ERR_ARGUMENT_UNSUPPORTED:  virt.ErrUnsupported,
	libvirt.ERR_DEVICE_MISSING:        virt.ErrNoDevice,
	libvirt.ERR_OPERATION_TIMEOUT:     virt.ErrUnconfirmed,
	libvirt.ERR_AGENT_UNRESPONSIVE:    virt.ErrUnconfirmed,
	libvirt.ERR_AGENT_UNSYNCED:        virt.ErrUnconfirmed,
	libvirt.ERR_AGENT_COMMAND_TIMEOUT: virt.ErrUnconfirmed,
	libvirt.ERR_RPC:                   virt.ErrConnection,
	libvirt.ERR_INVALID_CONN:          virt.ErrConnection,
}

// classified adds the matching error of package virt and keeps libvirt's error.
func classified(err error) error {
	var already libvirtError
	var answer libvirt.Error
	if errors.As(err, &already) || !errors.As(err, &answer) {
		return err
	}
	kind := errorKinds[answer.Code]
	switch {
	case answer.Domain == libvirt.FROM_RPC:
		kind = virt.ErrConnection
	case answer.Code == libvirt.ERR_INVALID_ARG && unknownFlags.MatchString(answer.Message):
		kind = virt.ErrUnsupported
	}
	if kind == nil {
		return libvirtError{answer}
	}
	return fmt.Errorf("%w: %w", kind, libvirtError{answer})
}

// unknownFlags matches the answer of drivers with fewer features than QEMU's. There is no code.
var unknownFlags = regexp.MustCompile("^unsupported flags |mutually exclusive$")

// libvirtError is an error of libvirt that prints its message only.
type libvirtError struct{ answer libvirt.Error }

func (f libvirtError) Error() string { return f.answer.Message }
func (f libvirtError) Unwrap() error { return f.answer }

// hasCode reports whether err is a libvirt error with one of the codes.
func hasCode(err error, codes ...libvirt.ErrorNumber) bool {
	var answer libvirt.Error
	if !errors.As(err, &answer) {
		return false
	}
	for _, code := range codes {
		if answer.Code == code {
			return true
		}
	}
	return false
}

// asUnconfirmedUnplug adds [virt.ErrUnconfirmed] to an unplug timeout. Older versions of libvirt
// have no error code for it.
func asUnconfirmedUnplug(err error) error {
	if hasCode(err, libvirt.ERR_OPERATION_FAILED) && strings.Contains(err.Error(), "timed out") {
		return fmt.Errorf("%w: %w", virt.ErrUnconfirmed, classified(err))
	}
	return err
}

// asAgentGone adds [virt.ErrUnconfirmed] if the agent's channel closed. There is no code.
func asAgentGone(err error) error {
	if hasCode(err, libvirt.ERR_INTERNAL_ERROR) &&
		strings.Contains(err.Error(), "End of file from agent socket") {
		return fmt.Errorf("%w: %w", virt.ErrUnconfirmed, classified(err))
	}
	return err
}
