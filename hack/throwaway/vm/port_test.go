package vm

import (
	"errors"
	"fmt"
	"testing"
)

// The message is that of QEMU 10.
func TestPortTaken(t *testing.T) {
	said := errors.New("qemu-system-x86_64: -netdev user,id=net: Could not set up host " +
		"forwarding rule 'tcp:127.0.0.1:1-10.0.2.15:22'")
	if !portTaken(fmt.Errorf("booting the node: %w", said)) {
		t.Error("a port that another process took is not noticed")
	}
	if portTaken(errors.New("the node was not ready after 2m0s")) {
		t.Error("any failed boot counts as a port that was taken")
	}
}
