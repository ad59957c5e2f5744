//go:build cgo && libvirt_dlopen

package libvirt

import (
	"fmt"
	"sync"

	"libvirt.org/go/libvirt"
)

// link is a connection of libvirt for events, with sessions for calls, from its opening to its
// loss.
type link struct {
	uri   string
	conn  *libvirt.Connect // for events
	slots chan struct{}    // one element for each call that has not returned
	hang  hangProbe

	lost     chan struct{} // closed when the connection is
	loseOnce sync.Once
	calls    sync.WaitGroup // calls that have not returned

	bandwidth bandwidthReader

	callbacks []int

	mu     sync.Mutex
	idle   []*session
	starts map[string]uint // the last known start of each domain, by UUID
}

// connect blocks until libvirt answers, without a time limit.
func connect(uri string, o Options, onEvent func(uuid, event string)) (*link, error) {
	conn, err := libvirt.NewConnect(uri)
	if err != nil {
		return nil, classified(err)
	}
	l := &link{
		uri:    uri,
		conn:   conn,
		slots:  make(chan struct{}, o.MaxCalls),
		lost:   make(chan struct{}),
		starts: map[string]uint{},
	}
	l.hang.start(l, o.ProbeInterval)
	if err := l.prepare(onEvent); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *link) prepare(onEvent func(uuid, event string)) error {
	// In-process drivers have no connection to lose.
	err := l.conn.RegisterCloseCallback(
		func(*libvirt.Connect, libvirt.ConnectCloseReason) { l.lose() },
	)
	if err != nil && !hasCode(err, libvirt.ERR_NO_SUPPORT) {
		return fmt.Errorf("register for the loss of the connection: %w", classified(err))
	}
	return l.registerEvents(onEvent)
}

func (l *link) lose() { l.loseOnce.Do(func() { close(l.lost) }) }

// noteStart stores the ID of a domain's start. A lookup for the ID could block for as long as a
// QEMU hangs. IDs grow with each start, so a late event changes nothing.
func (l *link) noteStart(uuid string, id uint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.starts[uuid] = max(l.starts[uuid], id)
}

// start returns the ID of a domain's last known start, or 0.
func (l *link) start(uuid string) uint {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.starts[uuid]
}

// close closes the connections after all running calls have returned. It ignores errors, because
// the connections may be lost already.
func (l *link) close() {
	l.lose()
	l.calls.Wait()
	for s := l.takeIdle(); s != nil; s = l.takeIdle() {
		s.close()
	}
	// Each callback keeps a reference to the connection.
	for _, id := range l.callbacks {
		_ = l.conn.DomainEventDeregister(id)
	}
	_ = l.conn.UnregisterCloseCallback()
	_, _ = l.conn.Close()
}
