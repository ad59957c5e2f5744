//go:build cgo && libvirt_dlopen

package libvirttest

import (
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func (d *Daemon) heartSocket() string { return filepath.Join(d.Dir, "heart") }

// Heart is the heartbeat of a guest that was booted with guest.heartbeat, as the host
// sees it.
type Heart struct {
	mu      sync.Mutex
	last    time.Time
	longest time.Duration
}

// Heart listens until the test ends. The guest runs.
func (d *Daemon) Heart(t testing.TB) *Heart {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "unix", d.heartSocket())
	if err != nil {
		t.Fatal(err)
	}
	h := &Heart{last: time.Now()}
	done := make(chan struct{})
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	go func() {
		defer close(done)
		for some := make([]byte, 4096); err == nil; {
			_, err = conn.Read(some)
			h.beats()
		}
	}()
	return h
}

func (h *Heart) beats() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	h.longest, h.last = max(h.longest, now.Sub(h.last)), now
}

// Longest is the longest time without a beat since it was asked before.
func (h *Heart) Longest() time.Duration {
	h.beats()
	h.mu.Lock()
	defer h.mu.Unlock()
	longest := h.longest
	h.longest = 0
	return longest
}
