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

// missed is the number of probe intervals without an answer after which a link is lost.
const missed = 3

// link is one connection of libvirt, from its opening to its loss.
type link struct {
	uri   string
	conn  *libvirt.Connect
	slots chan struct{} // one element for each call that has not returned

	lost     chan struct{} // closed when the connection is
	loseOnce sync.Once
	calls    sync.WaitGroup // calls that have not returned, and watch

	bandwidth bandwidthReader

	mu           sync.Mutex
	handles      map[string]*libvirt.Domain // by UUID, each with the ID of its start
	staleHandles []*libvirt.Domain          // of earlier starts; calls may still use them
	callbacks    []int
}

// connect blocks until libvirt answers, without a time limit.
func connect(uri string, o Options, onEvent func(uuid, event string)) (*link, error) {
	conn, err := libvirt.NewConnect(uri)
	if err != nil {
		return nil, classified(err)
	}
	l := &link{
		uri:     uri,
		conn:    conn,
		slots:   make(chan struct{}, concurrentCalls(o.MaxCalls)),
		lost:    make(chan struct{}),
		handles: map[string]*libvirt.Domain{},
	}
	if err := l.prepare(o.ProbeInterval, onEvent); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *link) prepare(probe time.Duration, onEvent func(uuid, event string)) error {
	// In-process drivers have no connection to lose.
	err := l.conn.RegisterCloseCallback(
		func(*libvirt.Connect, libvirt.ConnectCloseReason) { l.lose() },
	)
	if err != nil && !hasCode(err, libvirt.ERR_NO_SUPPORT) {
		return fmt.Errorf("register for the loss of the connection: %w", classified(err))
	}
	if err := l.registerEvents(onEvent); err != nil {
		return err
	}
	l.calls.Add(1)
	go l.watch(probe)
	return nil
}

// watch loses the link when libvirt hangs. While calls run, it probes libvirt once per interval and
// waits for three intervals. libvirt's own keep-alive messages are unsafe: see [concurrentCalls].
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
		if len(l.slots) > 0 && !l.answers(missed*interval) {
			l.lose()
			return
		}
	}
}

// answers reports whether libvirt accepts a new connection. It returns early if the link is lost.
func (l *link) answers(within time.Duration) bool {
	answered := make(chan struct{})
	go func() {
		if conn, err := libvirt.NewConnectReadOnly(l.uri); err == nil {
			_, _ = conn.Close()
		}
		close(answered) // an error is an answer, too
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

// close closes the connection after all running calls have returned and watch has ended. It ignores
// errors, because the connection may be lost already.
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
