//go:build cgo && libvirt_dlopen

package libvirt

import (
	"fmt"
	"sync"
	"time"

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
			runOnce(libvirt.EventRunDefaultImpl)
		}
	}()
	return nil
})

// failedLoopPause is the time before the next try of a failed event loop.
const failedLoopPause = time.Second

// runOnce runs the event loop once. It fails only if poll(2) fails, and the only remedy is another
// try. Without a pause a lasting failure would use a whole CPU.
func runOnce(run func() error) {
	if run() != nil {
		<-time.After(failedLoopPause)
	}
}
