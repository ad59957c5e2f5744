//go:build cgo && libvirt_dlopen

package libvirt

import (
	"errors"
	"fmt"
	"testing"

	"libvirt.org/go/libvirt"

	"github.com/mooring-vm/mooring/shim/virt"
)

func TestClassified(t *testing.T) {
	for name, c := range map[string]struct {
		err  libvirt.Error
		kind error
	}{
		"no domain":    {libvirt.Error{Code: libvirt.ERR_NO_DOMAIN}, virt.ErrNoDomain},
		"no such call": {libvirt.Error{Code: libvirt.ERR_NO_SUPPORT}, virt.ErrUnsupported},
		"session mode": {
			libvirt.Error{Code: libvirt.ERR_OPERATION_UNSUPPORTED},
			virt.ErrUnsupported,
		},
		"other flags": {
			libvirt.Error{
				Code:    libvirt.ERR_INVALID_ARG,
				Message: "unsupported flags (0x10) in function f",
			},
			virt.ErrUnsupported,
		},
		"socket closed": {
			libvirt.Error{Code: libvirt.ERR_SYSTEM_ERROR, Domain: libvirt.FROM_RPC},
			virt.ErrConnection,
		},
		"unplug timed out": {
			libvirt.Error{Code: libvirt.ERR_OPERATION_TIMEOUT},
			virt.ErrUnconfirmed,
		},
		"agent away": {
			libvirt.Error{Code: libvirt.ERR_AGENT_UNRESPONSIVE},
			virt.ErrUnconfirmed,
		},
		"bad argument": {libvirt.Error{Code: libvirt.ERR_INVALID_ARG, Message: "no"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := classified(c.err)
			if c.kind != nil && !errors.Is(got, c.kind) || !hasCode(got, c.err.Code) {
				t.Errorf("%v, want %v, of libvirt's %v", got, c.kind, c.err)
			}
			again := classified(fmt.Errorf("again: %w", got))
			if again.Error() != "again: "+got.Error() {
				t.Errorf("explained twice: %v", again)
			}
		})
	}
}

func TestUnconfirmedErrors(t *testing.T) {
	for name, err := range map[string]error{
		"unplug of old versions": asUnconfirmedUnplug(
			libvirt.Error{
				Code:    libvirt.ERR_OPERATION_FAILED,
				Message: "vcpu unplug request timed out",
			},
		),
		"shutdown of a quick guest": asAgentGone(
			libvirt.Error{
				Code:    libvirt.ERR_INTERNAL_ERROR,
				Message: "internal error: End of file from agent socket",
			},
		),
	} {
		if !errors.Is(err, virt.ErrUnconfirmed) {
			t.Errorf("%s: %v, want %v", name, err, virt.ErrUnconfirmed)
		}
	}
	other := libvirt.Error{Code: libvirt.ERR_INTERNAL_ERROR, Message: "something else"}
	if errors.Is(asUnconfirmedUnplug(other), virt.ErrUnconfirmed) ||
		errors.Is(asAgentGone(other), virt.ErrUnconfirmed) {
		t.Errorf("%v counts as unconfirmed, want an error of no kind", other)
	}
}
