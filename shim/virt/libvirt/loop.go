//go:build cgo && libvirt_dlopen

package libvirt

import (
	"fmt"
	"sync"

	"libvirt.org/go/libvirt"
)

// StartEvents registers libvirt's default event loop and runs it until the process ends. Later
// calls return the result of the first.
func StartEvents() error { return startEvents() }

// libvirt allows one event loop per process, registered once.
var startEvents = sync.OnceValue(func() error {
	if err := libvirt.EventRegisterDefaultImpl(); err != nil {
		return fmt.Errorf("register libvirt's event loop: %w", err)
	}
	go func() {
		for {
			// It fails only if poll(2) fails. The only remedy is another try.
			_ = libvirt.EventRunDefaultImpl()
		}
	}()
	return nil
})
