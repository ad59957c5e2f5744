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

// kinds are the codes that say the same whatever was asked.
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

// explained adds the error that callers tell apart, and keeps libvirt's own.
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

// unknownFlags is the answer of drivers that can less than QEMU's. There is no code.
var unknownFlags = regexp.MustCompile("^unsupported flags |mutually exclusive$")

// failure is an answer of libvirt, shown in its words.
type libvirtError struct{ answer libvirt.Error }

func (f libvirtError) Error() string { return f.answer.Message }
func (f libvirtError) Unwrap() error { return f.answer }

// is reports whether libvirt's answer has one of the codes.
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

// unplugged knows the answer of versions that have no code for an unplug that the guest
// has not confirmed.
func asUnconfirmedUnplug(err error) error {
	if hasCode(err, libvirt.ERR_OPERATION_FAILED) && strings.Contains(err.Error(), "timed out") {
		return fmt.Errorf("%w: %w", virt.ErrUnconfirmed, classified(err))
	}
	return err
}

// agentGone knows the answer for an agent whose channel ended. There is no code.
func asAgentGone(err error) error {
	if hasCode(err, libvirt.ERR_INTERNAL_ERROR) && strings.Contains(err.Error(), "End of file from agent socket") {
		return fmt.Errorf("%w: %w", virt.ErrUnconfirmed, classified(err))
	}
	return err
}
