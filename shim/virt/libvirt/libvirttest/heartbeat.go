//go:build cgo && libvirt_dlopen

package libvirttest

import (
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func (d *Daemon) heartbeatSocket() string { return filepath.Join(d.Dir, "heart") }

// Heartbeat records, on the host, the heartbeats of a guest booted with guest.heartbeat.
type Heartbeat struct {
	mu         sync.Mutex
	last       time.Time
	longestGap time.Duration
}

// Heartbeat listens to the running guest until the test ends.
func (d *Daemon) Heartbeat(t testing.TB) *Heartbeat {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "unix", d.heartbeatSocket())
	if err != nil {
		t.Fatal(err)
	}
	h := &Heartbeat{last: time.Now()}
	done := make(chan struct{})
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	go func() {
		defer close(done)
		for some := make([]byte, 4096); err == nil; {
			_, err = conn.Read(some)
			h.recordBeat()
		}
	}()
	return h
}

func (h *Heartbeat) recordBeat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	h.longestGap, h.last = max(h.longestGap, now.Sub(h.last)), now
}

// LongestGap returns the longest time between two beats since the previous call.
func (h *Heartbeat) LongestGap() time.Duration {
	h.recordBeat()
	h.mu.Lock()
	defer h.mu.Unlock()
	longest := h.longestGap
	h.longestGap = 0
	return longest
}
