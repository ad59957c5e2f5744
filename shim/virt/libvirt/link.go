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

// link is one connection of libvirt's, from its beginning to its loss.
type link struct {
	conn *libvirt.Connect

	lost     chan struct{} // closed when the connection is
	loseOnce sync.Once
	calls    sync.WaitGroup // those under way

	mu           sync.Mutex
	handles      map[string]*libvirt.Domain // by UUID, each with the ID of its start
	staleHandles []*libvirt.Domain          // of starts before; somebody may be using them
	callbacks    []int
}

// connect blocks until libvirt has answered: for as long as a daemon hangs.
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
	// A driver within the process has no connection that could be lost.
	err := l.conn.RegisterCloseCallback(func(*libvirt.Connect, libvirt.ConnectCloseReason) { l.lose() })
	if err != nil && !hasCode(err, libvirt.ERR_NO_SUPPORT) {
		return fmt.Errorf("learn of a lost connection: %w", classified(err))
	}
	err = l.conn.SetKeepAlive(int(keepAlive/time.Second), missed)
	if err != nil && !hasCode(err, libvirt.ERR_NO_SUPPORT) {
		return fmt.Errorf("keep the connection alive: %w", classified(err))
	}
	return l.registerEvents(onEvent)
}

func (l *link) lose() { l.loseOnce.Do(func() { close(l.lost) }) }

// domain returns libvirt's handle of a domain, which is the link's own.
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

// startedAnew keeps the handle that an event has brought: it has the new start's ID, and to
// look the domain up may take as long as a QEMU hangs.
func (l *link) replaceHandle(d *libvirt.Domain) {
	uuid, err := d.GetUUIDString()
	if err != nil {
		return // it has none only if it is no domain
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	previous, ok := l.handles[uuid]
	if !ok || d.Ref() != nil {
		return
	}
	l.handles[uuid], l.staleHandles = d, append(l.staleHandles, previous)
}

// close ends the connection when the calls under way have returned. Errors are of a
// connection that is lost already.
func (l *link) close() {
	l.calls.Wait()
	for _, d := range slices.AppendSeq(l.staleHandles, maps.Values(l.handles)) {
		_ = d.Free()
	}
	// Each of them holds the connection.
	for _, id := range l.callbacks {
		_ = l.conn.DomainEventDeregister(id)
	}
	_ = l.conn.UnregisterCloseCallback()
	_, _ = l.conn.Close()
}
