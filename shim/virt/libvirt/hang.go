//go:build cgo && libvirt_dlopen

package libvirt

import (
	"sync"
	"time"

	"libvirt.org/go/libvirt"
)

// missed is the number of probe intervals without an answer after which a link is lost.
const missed = 3

// hangProbe loses a link when libvirt hangs. While calls run, it probes libvirt once per interval
// and waits for three intervals. Without a call it does nothing. libvirt's own keep-alive messages
// are unsafe: see [session].
type hangProbe struct {
	link     *link
	interval time.Duration

	mu    sync.Mutex
	calls int         // calls that have not returned
	timer *time.Timer // runs while calls run, except during a probe
}

func (p *hangProbe) start(l *link, interval time.Duration) {
	p.link, p.interval = l, interval
	p.timer = time.AfterFunc(interval, p.probe)
	p.timer.Stop()
}

// add changes the number of running calls.
func (p *hangProbe) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.calls
	p.calls += n
	switch {
	case before == 0:
		p.timer.Reset(p.interval)
	case p.calls == 0:
		p.timer.Stop()
	}
}

// probe runs in a goroutine of the timer.
func (p *hangProbe) probe() {
	if !p.answers() {
		p.link.lose()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls > 0 {
		p.timer.Reset(p.interval)
	}
}

// answers reports whether libvirt accepts a new connection. It returns false if the link is lost.
func (p *hangProbe) answers() bool {
	answered := make(chan struct{})
	go func() {
		if conn, err := libvirt.NewConnectReadOnly(p.link.uri); err == nil {
			_, _ = conn.Close()
		}
		close(answered) // an error is an answer, too
	}()
	timeout := time.NewTimer(missed * p.interval)
	defer timeout.Stop()
	select {
	case <-answered:
		return true
	case <-p.link.lost:
		return false
	case <-timeout.C:
		return false
	}
}
