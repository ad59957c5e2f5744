//go:build cgo && libvirt_dlopen

package libvirt

import (
	"errors"
	"fmt"

	"libvirt.org/go/libvirt"

	"github.com/mooring-vm/mooring/shim/virt"
)

// session is a connection of libvirt for calls, one at a time.
//
// In client libraries older than 10.3, a second thread in a connection, even a keep-alive message,
// can leave a pointer to the stack of the first. The process crashes when libvirt follows it later
// (CVE-2024-4418, not mended in Debian 12).
type session struct {
	link    *link
	conn    *libvirt.Connect
	handles map[string]*libvirt.Domain // by UUID
}

// run calls f with a session of its own. It blocks until f returns.
func (l *link) run(f func(*session) error) error {
	s, err := l.takeSession()
	if err != nil {
		return err
	}
	defer l.returnSession(s)
	return s.classified(f(s))
}

// takeSession returns an idle session, or opens one.
func (l *link) takeSession() (*session, error) {
	if s := l.takeIdle(); s != nil {
		return s, nil
	}
	conn, err := libvirt.NewConnect(l.uri)
	if err != nil {
		return nil, classified(err)
	}
	return &session{link: l, conn: conn, handles: map[string]*libvirt.Domain{}}, nil
}

func (l *link) takeIdle() *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.idle) == 0 {
		return nil
	}
	last := len(l.idle) - 1
	s := l.idle[last]
	l.idle = l.idle[:last]
	return s
}

// returnSession closes a broken session. An intact one waits for the next call.
func (l *link) returnSession(s *session) {
	if alive, err := s.conn.IsAlive(); err != nil || !alive {
		s.close()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = append(l.idle, s)
}

// classified is the function classified, and also detects a broken connection behind an error of
// another kind.
func (s *session) classified(err error) error {
	if err == nil {
		return nil
	}
	err = classified(err)
	alive, broken := s.conn.IsAlive()
	if (broken != nil || !alive) && !errors.Is(err, virt.ErrConnection) {
		return fmt.Errorf("%w: %w", virt.ErrConnection, err)
	}
	return err
}

// handle returns libvirt's handle of a domain. The session owns it.
func (s *session) handle(uuid string) (*libvirt.Domain, error) {
	if d, ok := s.handles[uuid]; ok {
		return d, nil
	}
	d, err := s.conn.LookupDomainByUUIDString(uuid)
	if err != nil {
		return nil, err
	}
	s.handles[uuid] = d
	s.link.noteStart(uuid, startID(d))
	return d, nil
}

// close ignores errors, because the connection may be lost already.
func (s *session) close() {
	for _, d := range s.handles {
		_ = d.Free()
	}
	_, _ = s.conn.Close()
}
