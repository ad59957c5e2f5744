package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mooring-vm/mooring/agent/libvirt"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle"
)

// domains are those of the node's libvirt, as package lifecycle wants them.
type domains struct {
	records libvirt.Records
	daemon  libvirt.Daemon
}

var _ lifecycle.Domains = (*domains)(nil)

// nodeDomains returns those that the policy names, nil for none.
func nodeDomains(p *policy.Policy) *domains {
	at := p.Lifecycle.Libvirt
	if at == nil {
		return nil
	}
	return &domains{records: libvirt.Records{Dir: at.Records}, daemon: libvirt.Daemon{Socket: at.Socket}}
}

// Running implements [lifecycle.Domains]. A libvirt that has not run a domain since the
// node booted has no directory for their records, but one to put that in.
func (d *domains) Running() ([]lifecycle.Domain, error) {
	all, err := d.records.List()
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Stat(filepath.Dir(d.records.Dir))
	}
	running := make([]lifecycle.Domain, 0, len(all))
	for _, domain := range all {
		running = append(running, lifecycle.Domain{Name: domain.Name, UUID: domain.UUID, PID: domain.PID})
	}
	return running, err
}

// RunBy implements [lifecycle.Domains].
func (d *domains) RunBy(domain lifecycle.Domain, args []string) bool {
	return recorded(domain).RunBy(args)
}

func recorded(d lifecycle.Domain) libvirt.Domain {
	return libvirt.Domain{Name: d.Name, UUID: d.UUID, PID: d.PID}
}

// Shutdown implements [lifecycle.Domains]. It asks for the process that the domain had
// when it was noted, and for no other.
func (d *domains) Shutdown(ctx context.Context, domain lifecycle.Domain) error {
	meant := func() error { return d.records.Runs(recorded(domain)) }
	if err := d.daemon.Shutdown(ctx, domain.UUID, meant); err != nil {
		return fmt.Errorf("ask libvirt to shut domain %s down: %w", domain.Name, err)
	}
	return nil
}
