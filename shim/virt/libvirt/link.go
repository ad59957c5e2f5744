//go:build cgo && libvirt_dlopen

package libvirt

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"libvirt.org/go/libvirt"
)

// missed is the number of keep-alive intervals without an answer after which a link is lost.
const missed = 3

// link is one connection of libvirt, from its opening to its loss.
type link struct {
	conn *libvirt.Connect

	lost     chan struct{} // closed when the connection is
	loseOnce sync.Once
	calls    sync.WaitGroup // calls that have not returned, and watch
	running  atomic.Int32   // calls of the connection that have not returned

	bandwidth bandwidthReader

	mu           sync.Mutex
	handles      map[string]*libvirt.Domain // by UUID, each with the ID of its start
	staleHandles []*libvirt.Domain          // of earlier starts; calls may still use them
	callbacks    []int
}

// connect blocks until libvirt answers, without a time limit.
func connect(uri string, keepAlive time.Duration, onEvent func(uuid, event string)) (*link, error) {
	conn, err := libvirt.NewConnect(uri)
	if err != nil {
		return nil, classified(err)
	}
	l := &link{conn: conn, lost: make(chan struct{}), handles: map[string]*libvirt.Domain{}}
	if err := l.prepare(keepAlive, onEvent); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *link) prepare(keepAlive time.Duration, onEvent func(uuid, event string)) error {
	// In-process drivers have no connection to lose.
	err := l.conn.RegisterCloseCallback(
		func(*libvirt.Connect, libvirt.ConnectCloseReason) { l.lose() },
	)
	if err != nil && !hasCode(err, libvirt.ERR_NO_SUPPORT) {
		return fmt.Errorf("register for the loss of the connection: %w", classified(err))
	}
	err = l.conn.SetKeepAlive(int(keepAlive/time.Second), missed)
	if err != nil && !hasCode(err, libvirt.ERR_NO_SUPPORT) {
		return fmt.Errorf("keep the connection alive: %w", classified(err))
	}
	if err := l.registerEvents(onEvent); err != nil {
		return err
	}
	l.calls.Add(1)
	go l.watch(keepAlive)
	return nil
}

// watch loses the link when libvirt hangs. It asks for libvirt's version while calls run, and waits
// for three intervals. libvirt's own keep-alive is not enough: on a busy machine the client library
// of libvirt 9.0 sometimes misses its own timer and waits until the daemon answers.
func (l *link) watch(interval time.Duration) {
	defer l.calls.Done()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-l.lost:
			return
		case <-tick.C:
		}
		if l.running.Load() > 0 && !l.answers(missed*interval) {
			l.lose()
			return
		}
	}
}

// answers reports whether libvirt answers a call that needs no domain. It returns early if the link
// is lost.
func (l *link) answers(within time.Duration) bool {
	answered := make(chan struct{})
	l.calls.Add(1)
	go func() {
		defer l.calls.Done()
		_, _ = l.conn.GetLibVersion() // an error is an answer, too
		close(answered)
	}()
	select {
	case <-answered:
		return true
	case <-l.lost:
		return true
	case <-time.After(within):
		return false
	}
}

func (l *link) lose() { l.loseOnce.Do(func() { close(l.lost) }) }

// handle returns libvirt's handle of a domain. The link owns it.
func (l *link) handle(uuid string) (*libvirt.Domain, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d, ok := l.handles[uuid]; ok {
		return d, nil
	}
	d, err := l.conn.LookupDomainByUUIDString(uuid)
	if err != nil {
		return nil, err
	}
	l.handles[uuid] = d
	return d, nil
}

// replaceHandle stores the handle from a start event. It carries the ID of the new start. A lookup
// for that ID could block for as long as a QEMU hangs.
func (l *link) replaceHandle(d *libvirt.Domain) {
	uuid, err := d.GetUUIDString()
	if err != nil {
		return // only an invalid handle has no UUID
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	previous, ok := l.handles[uuid]
	if !ok || d.Ref() != nil {
		return
	}
	l.handles[uuid], l.staleHandles = d, append(l.staleHandles, previous)
}

// close closes the connection after all running calls have returned and watch has ended. It ignores errors, because the
// connection may be lost already.
func (l *link) close() {
	l.lose()
	l.calls.Wait()
	for _, d := range slices.AppendSeq(l.staleHandles, maps.Values(l.handles)) {
		_ = d.Free()
	}
	// Each callback keeps a reference to the connection.
	for _, id := range l.callbacks {
		_ = l.conn.DomainEventDeregister(id)
	}
	_ = l.conn.UnregisterCloseCallback()
	_, _ = l.conn.Close()
}
