//go:build cgo && libvirt_dlopen

package libvirt

import (
	"fmt"
	"sync"

	"libvirt.org/go/libvirt"
)

// StartEvents registers libvirt's own event loop for this process and runs it until
// the process ends. What it has done stays: more calls return what the first did.
func StartEvents() error { return startEvents() }

// libvirt's event loop is the process's, and cannot be registered twice.
var startEvents = sync.OnceValue(func() error {
	if err := libvirt.EventRegisterDefaultImpl(); err != nil {
		return fmt.Errorf("register libvirt's event loop: %w", err)
	}
	go func() {
		for {
			// It fails when poll does, and there is nobody who could do more than try again.
			_ = libvirt.EventRunDefaultImpl()
		}
	}()
	return nil
})
