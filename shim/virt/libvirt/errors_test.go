//go:build cgo && libvirt_dlopen

package libvirt

import (
	"errors"
	"fmt"
	"testing"

	"libvirt.org/go/libvirt"

	"github.com/mooring-vm/mooring/shim/virt"
)

func TestExplained(t *testing.T) {
	for name, c := range map[string]struct {
		err  libvirt.Error
		kind error
	}{
		"no domain":        {libvirt.Error{Code: libvirt.ERR_NO_DOMAIN}, virt.ErrNoDomain},
		"no such call":     {libvirt.Error{Code: libvirt.ERR_NO_SUPPORT}, virt.ErrUnsupported},
		"session mode":     {libvirt.Error{Code: libvirt.ERR_OPERATION_UNSUPPORTED}, virt.ErrUnsupported},
		"other flags":      {libvirt.Error{Code: libvirt.ERR_INVALID_ARG, Message: "unsupported flags (0x10) in function f"}, virt.ErrUnsupported},
		"socket closed":    {libvirt.Error{Code: libvirt.ERR_SYSTEM_ERROR, Domain: libvirt.FROM_RPC}, virt.ErrConnection},
		"unplug timed out": {libvirt.Error{Code: libvirt.ERR_OPERATION_TIMEOUT}, virt.ErrUnconfirmed},
		"agent away":       {libvirt.Error{Code: libvirt.ERR_AGENT_UNRESPONSIVE}, virt.ErrUnconfirmed},
		"bad argument":     {libvirt.Error{Code: libvirt.ERR_INVALID_ARG, Message: "no"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := explained(c.err)
			if c.kind != nil && !errors.Is(got, c.kind) || !is(got, c.err.Code) {
				t.Errorf("%v, want that %v, of libvirt's %v", got, c.kind, c.err)
			}
			if again := explained(fmt.Errorf("again: %w", got)); again.Error() != "again: "+got.Error() {
				t.Errorf("explained twice: %v", again)
			}
		})
	}
}

func TestUnconfirmed(t *testing.T) {
	for what, err := range map[string]error{
		"unplug of old versions":    unplugged(libvirt.Error{Code: libvirt.ERR_OPERATION_FAILED, Message: "vcpu unplug request timed out"}),
		"shutdown of a quick guest": agentGone(libvirt.Error{Code: libvirt.ERR_INTERNAL_ERROR, Message: "internal error: End of file from agent socket"}),
	} {
		if !errors.Is(err, virt.ErrUnconfirmed) {
			t.Errorf("%s: %v, want that %v", what, err, virt.ErrUnconfirmed)
		}
	}
	other := libvirt.Error{Code: libvirt.ERR_INTERNAL_ERROR, Message: "something else"}
	if errors.Is(unplugged(other), virt.ErrUnconfirmed) || errors.Is(agentGone(other), virt.ErrUnconfirmed) {
		t.Errorf("%v is taken for a guest that did not confirm", other)
	}
}
