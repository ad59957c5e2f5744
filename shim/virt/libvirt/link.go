//go:build cgo && libvirt_dlopen

package libvirt

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"libvirt.org/go/libvirt"
)

// link is one connection of libvirt, from its opening to its loss.
type link struct {
	conn *libvirt.Connect

	lost     chan struct{} // closed when the connection is
	loseOnce sync.Once
	calls    sync.WaitGroup // calls that have not returned

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
	const missed = 3
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
	return l.registerEvents(onEvent)
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

// close closes the connection after all running calls have returned. It ignores errors, because the
// connection may be lost already.
func (l *link) close() {
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
