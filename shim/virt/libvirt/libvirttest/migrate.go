//go:build cgo && libvirt_dlopen

package libvirttest

import (
	"strings"
	"testing"

	"libvirt.org/go/libvirt"
)

// Migration is a live migration that a test has begun.
type Migration struct {
	from, to *libvirt.Connect
	domain   *libvirt.Domain
	ended    chan error
}

// Migrate begins to migrate the domain to another daemon, which must have the files of
// the guest, too. It goes as slowly as libvirt lets it, until [Migration.Hurry].
func (d *Daemon) Migrate(t testing.TB, to *Daemon) *Migration {
	t.Helper()
	m := &Migration{from: dial(t, d), to: dial(t, to), ended: make(chan error, 1)}
	var text string
	var err error
	if m.domain, err = m.from.LookupDomainByName(Name); err == nil {
		text, err = m.domain.GetXMLDesc(libvirt.DOMAIN_XML_MIGRATABLE | libvirt.DOMAIN_XML_SECURE)
	}
	if err != nil {
		t.Fatal(err)
	}
	params := libvirt.DomainMigrateParameters{
		URISet: true, URI: "tcp://127.0.0.1",
		ListenAddressSet: true, ListenAddress: "127.0.0.1",
		DestXMLSet: true, DestXML: strings.ReplaceAll(text, d.Dir, to.Dir),
		BandwidthSet: true, Bandwidth: 1, // MiB/s
	}
	go func() {
		_, err := m.domain.Migrate3(m.to, &params, libvirt.MIGRATE_LIVE|libvirt.MIGRATE_PERSIST_DEST)
		m.ended <- err
	}()
	return m
}

func dial(t testing.TB, d *Daemon) *libvirt.Connect {
	t.Helper()
	conn, err := libvirt.NewConnect(d.URI)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Hurry lets it go as fast as it can.
func (m *Migration) FullSpeed(t testing.TB) {
	t.Helper()
	const enough = 4096 // MiB/s
	if err := m.domain.MigrateSetMaxSpeed(enough, 0); err != nil {
		t.Fatal(err)
	}
}

// Abort gives it up, as far as libvirt can.
func (m *Migration) Abort(t testing.TB) {
	t.Helper()
	if err := m.domain.AbortJob(); err != nil {
		t.Fatal(err)
	}
}

// Wait waits for its end.
func (m *Migration) Wait() error { return <-m.ended }
