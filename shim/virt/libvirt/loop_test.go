//go:build cgo && libvirt_dlopen

package libvirt

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A lasting failure of poll(2) does not make the event loop spin.
func TestFailingEventLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		for end := time.Now().Add(time.Minute); time.Now().Before(end); tries++ {
			runOnce(func() error { return errors.New("poll failed") })
			if tries > 1000 {
				t.Fatal("more than 1000 tries without a pause")
			}
		}
		if tries != 60 {
			t.Errorf("%d tries in a minute, want 60", tries)
		}
	})
}
