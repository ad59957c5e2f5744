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

// Heart is the heartbeat of a guest that was booted with guest.heartbeat, as the host
// sees it.
type Heartbeat struct {
	mu         sync.Mutex
	last       time.Time
	longestGap time.Duration
}

// Heart listens until the test ends. The guest runs.
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

// Longest is the longest time without a beat since it was asked before.
func (h *Heartbeat) LongestGap() time.Duration {
	h.recordBeat()
	h.mu.Lock()
	defer h.mu.Unlock()
	longest := h.longestGap
	h.longestGap = 0
	return longest
}
