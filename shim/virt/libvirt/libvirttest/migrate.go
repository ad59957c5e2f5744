//go:build cgo && libvirt_dlopen

package libvirttest

import (
	"strings"
	"testing"

	"libvirt.org/go/libvirt"
)

// Migration is a running live migration.
type Migration struct {
	from, to *libvirt.Connect
	domain   *libvirt.Domain
	ended    chan error
}

// Migrate starts a migration to another daemon, which needs the guest's files in its own Dir. It
// runs at libvirt's lowest bandwidth until [Migration.FullSpeed].
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
		_, err := m.domain.Migrate3(
			m.to, &params, libvirt.MIGRATE_LIVE|libvirt.MIGRATE_PERSIST_DEST,
		)
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

// FullSpeed removes the bandwidth limit in practice.
func (m *Migration) FullSpeed(t testing.TB) {
	t.Helper()
	const enough = 4096 // MiB/s
	if err := m.domain.MigrateSetMaxSpeed(enough, 0); err != nil {
		t.Fatal(err)
	}
}

// Abort cancels the migration if libvirt can.
func (m *Migration) Abort(t testing.TB) {
	t.Helper()
	if err := m.domain.AbortJob(); err != nil {
		t.Fatal(err)
	}
}

// Wait waits for the end of the migration and returns its error.
func (m *Migration) Wait() error { return <-m.ended }
